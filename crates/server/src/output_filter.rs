//! Filters that change every tool's output before it is sent (PAT-035).

use mcp_flow_proto::model::{Content, ResourceBody};

use crate::context::Context;
use crate::tool::ToolOutput;

/// Changes a tool's output before it is encoded; see
/// [`ServerBuilder::filter_output`](crate::ServerBuilder::filter_output).
pub type OutputFilter = dyn Fn(&Context, &mut ToolOutput) + Send + Sync;

/// Removes control characters and terminal escape sequences from all text that people see.
///
/// That is text content, embedded text and the names of links; newlines and tabs stay. Bytes,
/// structured output and `_meta` are for programs and stay as they are. An unterminated escape
/// sequence is removed up to the end of its line.
///
/// ```
/// use mcp_flow_server::{Server, strip_control_characters};
///
/// let server = Server::builder("careful", "1.0.0")
///     .filter_output(strip_control_characters)
///     .build()
///     .unwrap();
/// ```
pub fn strip_control_characters(_: &Context, output: &mut ToolOutput) {
    output.content.iter_mut().for_each(strip_content);
}

fn strip_content(content: &mut Content) {
    each_text(content, &mut strip);
}

/// Changes every text in content that people see.
pub(crate) fn each_text(content: &mut Content, change: &mut impl FnMut(&mut String)) {
    match content {
        Content::Text { text, .. } => change(text),
        Content::Resource { resource, .. } => {
            change(&mut resource.uri);
            if let ResourceBody::Text(text) = &mut resource.body {
                change(text);
            }
        }
        Content::ResourceLink(link) => {
            change(&mut link.uri);
            change(&mut link.name);
            link.title.iter_mut().chain(&mut link.description).for_each(change);
        }
        Content::ImageUrl { url, .. } | Content::Image { url: Some(url), .. } => change(url),
        Content::Image { url: None, .. } | Content::Audio { .. } | Content::Stream { .. } => {}
    }
}

/// Removes control characters and terminal escape sequences from a text; newlines and tabs stay.
pub(crate) fn strip(text: &mut String) {
    if text.chars().any(is_unwanted) {
        let mut state = EscapeState::Text;
        text.retain(|character| {
            state = state.after(character);
            state == EscapeState::Text && !is_unwanted(character)
        });
    }
}

fn is_unwanted(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

/// Parser state, by the grammar of ECMA-48.
///
/// One step per character: an unterminated escape must not cost a search for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EscapeState {
    /// Outside any escape sequence.
    Text,
    /// At the last character of one.
    End,
    /// After an escape character and its intermediates.
    Escape,
    /// In a control sequence, such as a colour.
    Sequence,
    /// In a control string, such as a window title.
    String,
}

impl EscapeState {
    /// The state after the next character.
    fn after(self, next: char) -> Self {
        match (self, next) {
            (_, '\u{1b}') => Self::Escape,
            (_, '\u{9b}') | (Self::Escape, '[') => Self::Sequence,
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}')
            | (Self::Escape, ']' | 'P' | 'X' | '^' | '_') => Self::String,
            (Self::String, '\u{7}' | '\u{9c}') => Self::End,
            (Self::String, '\n') => Self::Text,
            (Self::String, _) => Self::String,
            (Self::Escape, ' '..='/') => Self::Escape,
            (Self::Sequence, ' '..='?') => Self::Sequence,
            (Self::Escape, '0'..='~') | (Self::Sequence, '@'..='~') => Self::End,
            (Self::Escape | Self::Sequence | Self::End | Self::Text, _) => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{strip, strip_content};
    use mcp_flow_proto::model::{Content, ResourceContents, ResourceLink};

    /// PAT-035: escape sequences are removed, everything else stays.
    #[test]
    fn control_characters_and_escape_sequences_are_removed() {
        for (text, expected) in [
            ("plain é 漢字 🦀", "plain é 漢字 🦀"),
            ("a\tb\nc\r\nd", "a\tb\nc\nd"),
            ("\u{0}a\u{8}b\u{7f}c\u{85}", "abc"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Htop", "top"),
            ("\u{1b}[38;2;1;2;3mx\u{1b}[?25ly", "xy"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\.", "link."),
            ("\u{9d}0;title\u{9c}text", "text"),
            ("\u{1b}Pq#0\u{1b}\\text", "text"),
            ("\u{1b}(Btext\u{1b}cmore\u{1b}7", "textmore"),
            ("\u{1b}]0;never ends\nnext line", "\nnext line"),
            ("\u{1b}[31\nnext", "\nnext"),
            ("\u{1b}[31é", "é"),
            ("\u{1b}\u{1b}[1mx", "x"),
            ("\u{1b}[3\u{1b}[1mx", "x"),
            ("end\u{1b}", "end"),
            ("end\u{1b}[", "end"),
            ("\u{1b}", ""),
        ] {
            let mut stripped = text.to_owned();
            strip(&mut stripped);
            assert_eq!(stripped, expected, "{text:?}");
        }
    }

    /// PAT-035: an unterminated escape costs one step, not a search through the rest of the text.
    #[test]
    fn unterminated_sequences_take_one_pass() {
        let mut text = "\u{1b}]".repeat(1_000_000);
        strip(&mut text);
        assert_eq!(text, "");
    }

    /// PAT-035: all text that people see is cleaned, and bytes are not.
    #[test]
    fn every_kind_of_content_is_cleaned() {
        let dirty = || "\u{1b}[1ma".to_owned();
        let link = |text: fn() -> String| {
            Content::ResourceLink(Box::new(ResourceLink {
                uri: text(),
                name: text(),
                title: Some(text()),
                description: Some(text()),
                ..ResourceLink::default()
            }))
        };
        let bytes = "\u{1b}[1ma".as_bytes();
        for (mut content, expected) in [
            (Content::text(dirty()), Content::text("a")),
            (link(|| "\u{1b}[1ma".to_owned()), link(|| "a".to_owned())),
            (Content::image_url(dirty()), Content::image_url("a")),
            (
                Content::image_with_url(bytes, "image/png", dirty()),
                Content::image_with_url(bytes, "image/png", "a"),
            ),
            (Content::image(bytes, "image/png"), Content::image(bytes, "image/png")),
            (Content::audio(bytes, "audio/wav"), Content::audio(bytes, "audio/wav")),
            (
                Content::embedded(ResourceContents::text(dirty(), dirty())),
                Content::embedded(ResourceContents::text("a", "a")),
            ),
            (
                Content::embedded(ResourceContents::bytes("a", bytes)),
                Content::embedded(ResourceContents::bytes("a", bytes)),
            ),
        ] {
            strip_content(&mut content);
            assert_eq!(content, expected);
        }
    }
}
