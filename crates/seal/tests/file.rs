//! Key files: creation, rotation, permissions.

use std::path::Path;

use mcp_flow_seal::file::{KeyFileError, load, load_or_create, rotate};
use mcp_flow_seal::{Key, KeyRing, Seal, UnsealError};

const SEAL: Seal<'_> = Seal { purpose: "test", bound_to: b"" };

#[test]
fn a_file_is_created_once() {
    in_folder(|path| {
        let first = load_or_create(path, key(1)).unwrap();
        let second = load_or_create(path, key(2)).unwrap();
        assert_eq!(second.open(SEAL, 0, &sealed(&first)).unwrap(), b"content");
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no draft stays behind");
    });
}

/// C-43: keys can be rotated with overlap.
#[test]
fn a_rotation_keeps_the_newest_keys() {
    in_folder(|path| {
        let first = load_or_create(path, key(1)).unwrap();
        let second = rotate(path, key(2), 2).unwrap();
        let third = rotate(path, key(3), 2).unwrap();
        let kept = load(path).unwrap();
        assert_eq!(kept.open(SEAL, 0, &sealed(&third)).unwrap(), b"content");
        assert_eq!(kept.open(SEAL, 0, &sealed(&second)).unwrap(), b"content");
        assert_eq!(kept.open(SEAL, 0, &sealed(&first)), Err(UnsealError::UnknownKey));
    });
}

#[cfg(unix)]
#[test]
fn a_file_others_can_read_is_rejected() {
    use std::os::unix::fs::PermissionsExt;
    in_folder(|path| {
        load_or_create(path, key(1)).unwrap();
        let mode = || std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        rotate(path, key(2), 2).unwrap();
        assert_eq!(mode(), 0o600);
        for mode in [0o640, 0o604, 0o602, 0o610] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
            let refused = load_or_create(path, key(3)).unwrap_err();
            assert!(matches!(refused, KeyFileError::Exposed { .. }), "{refused}");
            assert!(refused.to_string().contains("chmod 600"));
        }
    });
}

#[test]
fn an_invalid_file_is_rejected_and_not_changed() {
    for text in ["", "# nothing\n", "short\n", "a key\n"] {
        in_folder(|path| {
            load_or_create(path, key(1)).unwrap();
            std::fs::write(path, text).unwrap();
            let refused = load_or_create(path, key(2)).unwrap_err();
            assert!(matches!(refused, KeyFileError::Bad { .. }), "{text:?}: {refused}");
            assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        });
    }
}

fn in_folder(test: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    test(&folder.path().join("sealing.keys"));
}

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

fn sealed(ring: &KeyRing) -> String {
    ring.seal(SEAL, None, b"content", [9; 24])
}
