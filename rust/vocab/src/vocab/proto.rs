//! The protobuf wire format, as far as a vocabulary file needs it: fields of one message, in order.
//!
//! Lengths are checked against the remaining bytes before memory is allocated.

use crate::error::{Error, Result};

/// One field's value; nested messages, strings and bytes are all [`Value::Bytes`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// The fields of one message: `(number, value, offset in the file)`.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begins in the file.
    base: usize,
    component: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize, component: &'static str) -> Self {
        Self { bytes, at: 0, base, component }
    }

    fn error(&self, problem: &str) -> Error {
        Error {
            offset: Some(self.base + self.at),
            component: self.component,
            problem: problem.into(),
        }
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.error("the file ends inside a number"));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error("a number of more than ten bytes"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let Some(taken) = taken else {
            let left = rest.len();
            return Err(self.error(&format!("a field of {length} bytes where {left} are left")));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>, usize)> {
        let tag = self.varint()?;
        let offset = self.base + self.at;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let offset = self.base + self.at;
                return Ok((tag >> 3, Value::Bytes(self.take(length)?), offset));
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            kind => return Err(self.error(&format!("a field of unknown wire type {kind}"))),
        };
        Ok((tag >> 3, value, offset))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>, usize)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}
