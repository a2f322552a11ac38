/// A protobuf body written field by field, so that it can break the schema in any way.
#[derive(Clone, Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn varint(mut self, tag: u64, value: u64) -> Body {
        self.raw_varint(tag << 3);
        self.raw_varint(value);
        self
    }

    pub(crate) fn fixed64(mut self, tag: u64, value: u64) -> Body {
        self.raw_varint(tag << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(mut self, tag: u64, content: &[u8]) -> Body {
        self.raw_varint(tag << 3 | 2);
        self.raw_varint(content.len() as u64);
        self.0.extend_from_slice(content);
        self
    }

    /// A column of 64-bit numbers.
    pub(crate) fn column64(self, tag: u64, numbers: &[u64]) -> Body {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.bytes(tag, &bytes)
    }

    /// A column of 32-bit numbers.
    pub(crate) fn column32(self, tag: u64, numbers: &[i32]) -> Body {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.bytes(tag, &bytes)
    }

    pub(crate) fn message(self, tag: u64, message: Body) -> Body {
        self.bytes(tag, &message.0)
    }

    /// The body without its last `count` bytes.
    pub(crate) fn cut(mut self, count: usize) -> Body {
        self.0.truncate(self.0.len() - count);
        self
    }

    /// Appends the same field `count` times.
    pub(crate) fn times(mut self, count: usize, field: fn(Body) -> Body) -> Body {
        let one = field(Body::default()).0;
        for _ in 0..count {
            self.0.extend_from_slice(&one);
        }
        self
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
