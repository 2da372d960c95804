//! Images and audio from files: size limits and detection of the MIME type.

use std::io::{self, Read};

use super::Content;

impl Content {
    /// Creates an image from the bytes of its file and detects its MIME type.
    ///
    /// Detects PNG, JPEG, GIF and WebP; for others use [`image`](Self::image).
    pub fn guess_image(data: impl Into<Vec<u8>>) -> Result<Self, MediaError> {
        Media::Image.content(data.into(), None)
    }

    /// Creates audio from the bytes of its file and detects its MIME type.
    ///
    /// Detects WAV, MP3, Ogg and FLAC; for others use [`audio`](Self::audio).
    pub fn guess_audio(data: impl Into<Vec<u8>>) -> Result<Self, MediaError> {
        Media::Audio.content(data.into(), None)
    }

    /// Reads an image of at most `limit` bytes. Detects the MIME type if none is given.
    ///
    /// Blocks until the reader is done.
    ///
    /// ```
    /// use mcp_flow_proto::model::{Content, MediaError};
    ///
    /// let file: &[u8] = b"GIF89a...";
    /// let picture = Content::read_image(file, None, 1024).unwrap();
    /// assert_eq!(picture, Content::image(file, "image/gif"));
    ///
    /// let refused = Content::read_image(file, None, 8);
    /// assert!(matches!(refused, Err(MediaError::TooLarge { limit: 8 })));
    /// ```
    pub fn read_image(
        reader: impl Read,
        mime_type: Option<&str>,
        limit: usize,
    ) -> Result<Self, MediaError> {
        Media::Image.content(read(reader, limit)?, mime_type)
    }

    /// Reads audio of at most `limit` bytes. Detects the MIME type if none is given.
    ///
    /// Blocks until the reader is done.
    ///
    /// ```
    /// use mcp_flow_proto::model::Content;
    ///
    /// let file: &[u8] = b"fLaC...";
    /// assert_eq!(Content::read_audio(file, None, 1024).unwrap(), Content::audio(file, "audio/flac"));
    ///
    /// let raw = Content::read_audio(&[0, 1][..], Some("audio/basic"), 1024).unwrap();
    /// assert_eq!(raw, Content::audio([0, 1], "audio/basic"));
    /// ```
    pub fn read_audio(
        reader: impl Read,
        mime_type: Option<&str>,
        limit: usize,
    ) -> Result<Self, MediaError> {
        Media::Audio.content(read(reader, limit)?, mime_type)
    }
}

/// The type of content to create from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// An image.
    Image,
    /// Audio.
    Audio,
}

impl Media {
    /// Creates content with the given MIME type, or with the one detected from the first bytes.
    pub fn content(self, bytes: Vec<u8>, mime_type: Option<&str>) -> Result<Content, MediaError> {
        let (prefix, known) = match self {
            Self::Image => ("image/", "PNG, JPEG, GIF, WebP"),
            Self::Audio => ("audio/", "WAV, MP3, Ogg, FLAC"),
        };
        let guessed = || guess_mime_type(&bytes).filter(|guess| guess.starts_with(prefix));
        let mime_type = mime_type.or_else(guessed).ok_or(MediaError::UnknownKind { known })?;
        Ok(match self {
            Self::Image => Content::image(bytes, mime_type),
            Self::Audio => Content::audio(bytes, mime_type),
        })
    }
}

/// Detects the MIME type of an image or audio file from its first bytes.
///
/// ```
/// use mcp_flow_proto::model::guess_mime_type;
///
/// assert_eq!(guess_mime_type(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
/// assert_eq!(guess_mime_type(b"hello"), None);
/// ```
pub fn guess_mime_type(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => "audio/wav",
        [b'f', b'L', b'a', b'C', ..] => "audio/flac",
        [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
        [b'I', b'D', b'3', ..] => "audio/mpeg",
        // An MPEG layer III frame of any version but the reserved one. The sync words of the other
        // layers also match AAC and UTF-16 text.
        [0xff, mark, ..] if mark & 0xe6 == 0xe2 && mark & 0x18 != 0x08 => "audio/mpeg",
        _ => return None,
    })
}

/// The reason a file could not be turned into content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file exceeds the limit. At most one byte past the limit was read.
    #[error("the file is larger than {limit} bytes; use a smaller one or raise the limit")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },

    /// The MIME type could not be detected.
    #[error("the file is none of {known}; specify its MIME type")]
    UnknownKind {
        /// The types that can be detected.
        known: &'static str,
    },

    /// Reading failed.
    #[error("the file cannot be read: {0}")]
    Read(#[from] io::Error),
}

fn read(reader: impl Read, limit: usize) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    reader.take((limit as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(MediaError::TooLarge { limit }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::guess_mime_type;
    use crate::model::{Content, MediaError};

    /// MCP-059, C-40: common types are detected by their first bytes, and nothing else is.
    #[test]
    fn mime_types_are_detected_by_the_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x24\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x24\0\0\0WAVEfmt ", Some("audio/wav")),
            (b"OggS\0\x02", Some("audio/ogg")),
            (b"fLaC\0\0\0\x22", Some("audio/flac")),
            (b"ID3\x04", Some("audio/mpeg")),
            (b"\xff\xfb\x90\x44", Some("audio/mpeg")),
            (b"\xff\xf3\x40\xc4", Some("audio/mpeg")),
            (b"\xff\xe3\x18\xc4", Some("audio/mpeg")),
            (b"\xff\xf1\x50\x80 AAC", None),
            (b"\xff\xfeh\0i\0", None),
            (b"RIFF\x24\0\0\0AVI LIST", None),
            (b"RIFF", None),
            (b"\x89PNG", None),
            (b"GIF88a", None),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\">", None),
            (b"", None),
        ] {
            assert_eq!(guess_mime_type(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let file = b"GIF89a and more";
        for (limit, fits) in [(0, false), (file.len() - 1, false), (file.len(), true)] {
            let read = Content::read_image(&file[..], None, limit);
            assert_eq!(read.is_ok(), fits, "{limit}: {read:?}");
        }
        let endless = Content::read_audio(std::io::repeat(0), Some("audio/basic"), 100);
        assert!(matches!(endless, Err(MediaError::TooLarge { limit: 100 })));
        assert!(Content::read_audio(&file[..], None, usize::MAX).is_err(), "a GIF is no sound");
    }

    #[test]
    fn media_errors_are_explained() {
        struct Broken;
        impl std::io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk is on fire"))
            }
        }
        for (result, words) in [
            (Content::read_image(&b"GIF89a"[..], None, 3), "larger than 3 bytes"),
            (Content::guess_image(*b"fLaC"), "specify its MIME type"),
            (Content::guess_audio(*b"hello"), "WAV, MP3, Ogg, FLAC"),
            (Content::read_image(Broken, None, 3), "the disk is on fire"),
        ] {
            let sentence = result.unwrap_err().to_string();
            assert!(sentence.contains(words), "{sentence}");
        }
    }
}
