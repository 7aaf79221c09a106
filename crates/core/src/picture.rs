//! Pictures that models can be shown: which sorts, and how large.

/// The largest picture that every provider takes.
pub const BYTES_MAX: u64 = 5 * 1024 * 1024;

/// As much of a file as has to be looked at.
pub const HEAD_BYTES: usize = 12;

/// Sorts that every provider takes.
const SORTS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether models can be shown what is said to be of this sort.
pub fn is_shown(media_type: &str) -> bool {
    SORTS.contains(&media_type)
}

/// What sort of picture begins so; nothing for anything else. A file's name says nothing: providers refuse a picture that is not
/// what it is said to be.
pub fn sort_of(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_how_it_begins() {
        let known: [(&[u8], &str); 5] = [
            (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF87a", "image/gif"),
            (b"GIF89a;", "image/gif"),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
        ];
        for (head, sort) in known {
            assert_eq!(sort_of(head), Some(sort));
            assert!(is_shown(sort) && head.len().min(HEAD_BYTES) <= HEAD_BYTES);
        }
        for other in [&b""[..], b"GIF", b"RIFF\0\0\0\0WAVE", b"<svg>", b"%PDF-1.7", b"\x89PNG"] {
            assert_eq!(sort_of(other), None, "{other:?}");
        }
        assert!(!is_shown("image/svg+xml"));
    }
}
