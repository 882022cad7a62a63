//! The fields of a message that a row writes, as bit sets that are compared for each message.

use super::BoundPiece;
use crate::pattern::{Field, Filter, Piece, walk};

/// The fields that a row has a place for; bits of [`Field::bit`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    /// Fields that a message must have.
    pub(crate) required: u32,
    /// Fields that a message may have, the required ones included.
    pub(crate) allowed: u32,
    /// The filter of the content, where the row writes content.
    pub(crate) content: Option<Filter>,
    /// The filter of the reasoning, where the row writes reasoning.
    pub(crate) reasoning: Option<Filter>,
}

impl Places {
    /// The places of a row that writes these pieces.
    pub(super) fn of(pieces: &[BoundPiece]) -> Self {
        let mut places = Self::default();
        for piece in pieces {
            if let Piece::Field(field, _) = piece {
                places.required |= field.bit();
            }
        }
        for piece in walk(pieces) {
            let &Piece::Field(field, filter) = piece else { continue };
            places.allowed |= field.bit();
            match field {
                Field::Content => places.content = places.content.or(Some(filter)),
                Field::Reasoning => places.reasoning = places.reasoning.or(Some(filter)),
                _ => {}
            }
        }
        places
    }

    /// Whether a message with these fields can be written: nothing is missing, nothing is left over.
    pub(crate) fn fit(&self, present: u32) -> bool {
        present & self.required == self.required && present & !self.allowed == 0
    }
}
