//! Encoder of Protocol Buffers, as far as OTLP needs it.
//!
//! Messages are written straight into a buffer. The length of a nested message is known only after
//! it has been written, and is inserted before it then: most are shorter than a cache line.

/// Writes a message into a buffer.
pub(crate) trait Encode {
    fn varint(&mut self, value: u64);
    fn bytes(&mut self, field: u32, bytes: &[u8]);
    fn fixed64(&mut self, field: u32, value: u64);
    fn fixed32(&mut self, field: u32, value: u32);
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Vec<u8>));

    fn tag(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    /// Begins a nested message of a known length.
    fn head(&mut self, field: u32, length: usize) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(length as u64);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Writes an attribute (`KeyValue`) with a text.
    fn attribute(&mut self, field: u32, name: &str, text: &str) {
        // The two lengths are known, so nothing has to be moved.
        let value = 1 + length_of_varint(text.len()) + text.len();
        let whole =
            1 + length_of_varint(name.len()) + name.len() + 1 + length_of_varint(value) + value;
        self.tag(field, LENGTH_DELIMITED);
        self.varint(whole as u64);
        self.text(1, name);
        self.tag(2, LENGTH_DELIMITED);
        self.varint(value as u64);
        self.text(1, text);
    }

    /// Writes an attribute with an integer.
    fn integer_attribute(&mut self, field: u32, name: &str, value: i64) {
        self.message(field, |attribute| {
            attribute.text(1, name);
            attribute.message(2, |any| any.number(3, value.cast_unsigned()));
        });
    }

    /// Writes an attribute that is true or false.
    fn boolean_attribute(&mut self, field: u32, name: &str, value: bool) {
        self.message(field, |attribute| {
            attribute.text(1, name);
            attribute.message(2, |any| any.number(2, u64::from(value)));
        });
    }
}

impl Encode for Vec<u8> {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.push((value & 0x7f) as u8);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED_64);
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, FIXED_32);
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
        self.tag(field, LENGTH_DELIMITED);
        let start = self.len();
        write(self);
        let length = self.len() - start;
        let width = length_of_varint(length);
        self.varint(length as u64);
        self[start..].rotate_right(width);
    }
}

/// Length of the head of a nested message, for fields up to 15.
pub(crate) fn length_of_head(length: usize) -> usize {
    1 + length_of_varint(length)
}

fn length_of_varint(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    (bits.max(1) as usize).div_ceil(7)
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

#[cfg(test)]
mod tests {
    use super::{Encode, length_of_varint};

    #[test]
    fn lengths_of_nested_messages_precede_them() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let mut buffer = vec![7];
            buffer.message(3, |inner| inner.extend(std::iter::repeat_n(9, length)));
            let width = length_of_varint(length);
            let mut expected = vec![7, 3 << 3 | 2];
            expected.varint(length as u64);
            assert_eq!(expected.len(), 2 + width);
            expected.extend(std::iter::repeat_n(9, length));
            assert!(buffer == expected, "{length}");
        }
    }

    #[test]
    fn attributes_are_key_and_value() {
        let mut fast = Vec::new();
        let long = "x".repeat(200);
        for text in ["", "v", &long] {
            fast.clear();
            fast.attribute(9, "key", text);
            let mut slow = Vec::new();
            slow.message(9, |attribute| {
                attribute.text(1, "key");
                attribute.message(2, |any| any.text(1, text));
            });
            assert_eq!(fast, slow);
        }
        let mut minus = Vec::new();
        minus.integer_attribute(1, "k", -1);
        assert_eq!(minus.len(), 2 + 3 + 2 + 11);
    }
}
