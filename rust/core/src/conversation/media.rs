//! Parts of a caller's content that are no text, read as placeholders.
//!
//! A client's part holds the data of an image, or where it is. Ids hold neither: what is read is the kind of the part
//! and `tokens`, the number of placeholder ids that an engine replaces with embeddings. All other keys are the
//! engine's.

use super::Dropped;
use super::read::{Reader, for_each};
use crate::error::{Error, Result};
use crate::limits::MEDIA_LIMIT;
use crate::message::{Media, MediaKind, MediaPlace, Message};
use crate::message::{Node, View};
use crate::path::Path;
use crate::span::{Source, SourceField};

/// Where a result's content is located.
#[derive(Debug, Clone, Copy)]
pub(super) enum Within {
    /// In a part of a user's message.
    Part(u32),
    /// In an item.
    Output,
}

impl Within {
    /// Puts a part into a result.
    pub(super) fn place(self, media: &mut Media) {
        if let MediaPlace::Content(nth) = media.place {
            media.place = match self {
                Self::Part(part) => MediaPlace::Result(part, nth),
                Self::Output => MediaPlace::Output(nth),
            };
        }
    }
}

impl Reader<'_> {
    /// Reads a part of a kind that the format has placeholders for. `at` is the byte of the content before it.
    pub(super) fn media<N: Node>(
        &self,
        kind: MediaKind,
        members: &[(N, N)],
        path: Path<'_>,
        nth: usize,
        at: usize,
    ) -> Result<Media> {
        let mut size = None;
        for_each(members, path, |key, _, value| {
            if key == "tokens" {
                size = Some(size_of(value, path.key(key))?);
            }
            Ok(())
        })?;
        let path = path.key("tokens");
        let spec = self.format.media_spec(kind);
        let is_fixed = spec.is_none_or(|spec| spec.each.is_none());
        let (rows, count) = match size {
            Some(size) => size,
            None if is_fixed => (1, 1),
            None => {
                let format = self.format.described();
                let kind = kind.with_article();
                let problem = format!(
                    "is missing, and {format} writes an id for each embedding of {kind}; expected their number, or \
                     the option `media_tokens`, which counts them"
                );
                return Err(Error::message(path, problem));
            }
        };
        if let Some(problem) = spec.and_then(|spec| spec.check(rows, count, self.format)) {
            return Err(Error::message(path, problem));
        }
        Ok(Media { kind, at, count, rows, place: MediaPlace::Content(nth as u32) })
    }

    /// Takes the media parts of an assistant's message: a model writes none, so no format has a place for
    /// them.
    pub(super) fn media_of_assistant(&mut self, message: &mut Message, at: usize) -> Result<()> {
        for media in message.media.drain(..) {
            let field = SourceField::Media(media.kind, media.place);
            let path = Source { message: at as i32, field }.to_string();
            if !self.drops() {
                let problem = format!(
                    "is {} in an assistant's message, expected it in a user's, a system or a tool message",
                    media.kind.with_article()
                );
                return Err(Error::unsupported(path, problem));
            }
            self.read.dropped.push(Dropped::new(path, media.kind.name()));
        }
        Ok(())
    }
}

/// Reads the size of a part: the number of rows, and of ids in a row.
fn size_of<N: Node>(value: View<'_, N>, path: Path<'_>) -> Result<(u32, u32)> {
    let View::List(items) = &value else { return Ok((1, number(value, path)?)) };
    let [rows, columns] = &items[..] else {
        let count = items.len();
        let problem =
            format!("is a list of {count}, expected a number, or a list of rows and columns");
        return Err(Error::message(path, problem));
    };
    let (rows, columns) =
        (number(rows.view(), path.item(0))?, number(columns.view(), path.item(1))?);
    if u64::from(rows) * u64::from(columns) > MEDIA_LIMIT {
        let problem = format!("is [{rows}, {columns}], expected at most {MEDIA_LIMIT} ids");
        return Err(Error::message(path, problem));
    }
    Ok((rows, columns))
}

fn number<N: Node>(value: View<'_, N>, path: Path<'_>) -> Result<u32> {
    let wrong = |found: String| {
        let problem = format!("is {found}, expected a whole number from 0 to {MEDIA_LIMIT}");
        Err(Error::message(path, problem))
    };
    match value {
        View::Number(text) => match text.parse::<u32>() {
            Ok(number) if u64::from(number) <= MEDIA_LIMIT => Ok(number),
            _ => wrong(chatcodec_vocab::excerpt(&text, 40).into_owned()),
        },
        other => wrong(other.kind()),
    }
}
