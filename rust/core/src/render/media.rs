//! Parts of a content that are no text, written as control tokens.
//!
//! In: the kind and the size of a part. Out: its opener, a token for each embedding, its closer, all with the part's
//! path as their source. Cost: a span for each row.

use super::Renderer;
use crate::error::{Error, MessagePart, Result};
use crate::format::Format;
use crate::grammar::BoundPiece;
use crate::limits::MEDIA_LIMIT;
use crate::message::{Media, Message, Role};
use crate::pattern::Filter;
use crate::span::{Source, SourceField, SpanKind};
use chatcodec_vocab::ControlId;

impl Renderer<'_> {
    /// Writes a part whose size has been checked.
    pub(super) fn media(&mut self, media: &Media, filter: Filter, source: Source) -> Result<()> {
        let source = source_of(media, source.message);
        let grammar = self.grammar;
        let rule = grammar.media_of(media.kind).filter(|_| !filter.is_json());
        let Some(rule) = rule else {
            let problem = format!(
                "is {}, which {} has no place for here",
                media.kind.with_article(),
                self.format.described()
            );
            let index = usize::try_from(source.message).unwrap_or_default();
            return Err(Error::unplaced(source.to_string(), problem, index, MessagePart::Content));
        };
        self.scaffold_of(&rule.open, source);
        if let Some(each) = rule.each {
            for row in 0..media.rows {
                if let Some(between) = rule.between.filter(|_| row > 0) {
                    self.control(between, source);
                }
                self.repeated(each, media.count, source);
            }
        }
        self.scaffold_of(&rule.close, source);
        Ok(())
    }

    fn scaffold_of(&mut self, pieces: &[BoundPiece], source: Source) {
        for piece in pieces {
            self.fixed(piece, source);
        }
    }

    /// A control token several times.
    fn repeated(&mut self, id: ControlId, count: u32, source: Source) {
        if count > 0 {
            (self.in_run, self.cut) = (false, false);
            let spelled = self.vocab.spelling(id.get()).repeat(count as usize);
            self.push(SpanKind::Repeated(id, count), &spelled, source);
        }
    }
}

fn source_of(media: &Media, message: i32) -> Source {
    Source { message, field: SourceField::Media(media.kind, media.place) }
}

/// Checks the parts of messages that are no text: places that are in order, sizes that the format reads back.
///
/// # Errors
/// [`Error::Message`] with the path of the part.
pub(super) fn check_media(messages: &[Message], format: &Format) -> Result<()> {
    let mut total = 0;
    for (index, message) in messages.iter().enumerate() {
        let mut from = 0;
        for media in &message.media {
            let path = || source_of(media, index as i32).to_string();
            if message.role == Role::Assistant {
                let problem = format!(
                    "is {} in an assistant's message, expected it in another",
                    media.kind.with_article()
                );
                return Err(Error::message(path(), problem));
            }
            if media.at < from || !message.content.is_char_boundary(media.at) {
                let problem = format!(
                    "is at byte {} of the content, expected a character's start, in order",
                    media.at
                );
                return Err(Error::message(path(), problem));
            }
            from = media.at;
            let Some(spec) = format.media_spec(media.kind) else { continue };
            let problem = spec.check(media.rows, media.count, format);
            if let Some(problem) = problem {
                return Err(Error::message(format!("{}.tokens", path()), problem));
            }
            total += media.ids();
            if total > MEDIA_LIMIT {
                let problem = format!(
                    "is too much: the parts so far have {total} placeholder ids, expected at most {MEDIA_LIMIT}"
                );
                return Err(Error::message(format!("{}.tokens", path()), problem));
            }
        }
    }
    Ok(())
}
