//! Parts of a turn that are no text: control tokens from an opener to a closer, with nothing between them but the text
//! that the opener itself has.
//!
//! ```text
//! <|vision_start|><|image_pad|><|image_pad|><|vision_end|>    Media(image, 2)
//! ```
//!
//! Only turns that no model writes have them: a model's own such tokens are reported like all that have no place. The
//! state is a few numbers for each kind, whatever the length of a part.

use super::control::Control;
use super::text::{Lead, TextState};
use super::{Piece, Place, Reader, Turn, Within};
use crate::event::{EventKind, NoticeKind};
use crate::grammar::{MediaRule, Suffix};
use chatcodec_vocab::{ControlId, TokenId};

/// State of a part whose tokens are read.
#[derive(Debug, Clone)]
pub(super) struct MediaState {
    /// The text that it is in.
    text: TextState,
    /// The token that opened it, and the positions of its first and its last id.
    opener: TokenId,
    first: u32,
    last: u32,
    /// The kinds that it may still be.
    ways: Vec<Way>,
}

/// Place within the tokens of a kind.
#[derive(Debug, Clone, Copy)]
struct Way {
    rule: usize,
    opened: usize,
    closed: usize,
    /// Number of rows, of tokens in a whole row, and in the row that is read.
    rows: u32,
    whole: Option<u32>,
    count: u32,
}

/// What a token is for a kind.
enum Step {
    Next,
    /// The last token.
    Last,
    None,
}

impl Way {
    fn new(rule: usize) -> Self {
        Self { rule, opened: 0, closed: 0, rows: 1, whole: None, count: 0 }
    }

    /// The text that the next token stands behind.
    fn text<'r>(&self, rule: &'r MediaRule) -> &'r str {
        rule.texts.get(self.opened).map_or("", String::as_str)
    }

    /// Reads a token.
    fn push(&mut self, rule: &MediaRule, id: TokenId) -> Step {
        let is = |token: Option<ControlId>| token.is_some_and(|token| token.get() == id);
        if let Some(&open) = rule.opens.get(self.opened) {
            self.opened += 1;
            let is_last = self.opened == rule.opens.len() && rule.each.is_none();
            if open != id {
                return Step::None;
            }
            self.count = u32::from(is_last);
            return if is_last { Step::Last } else { Step::Next };
        }
        if self.closed == 0 && is(rule.each) {
            self.count = self.count.saturating_add(1);
            return Step::Next;
        }
        let is_whole = self.whole.is_none_or(|whole| whole == self.count);
        if self.closed == 0 && is(rule.between) {
            if !is_whole || self.count == 0 {
                return Step::None;
            }
            self.whole = Some(self.count);
            (self.rows, self.count) = (self.rows.saturating_add(1), 0);
            return Step::Next;
        }
        let is_begun = !rule.opens.is_empty() || self.count > 0 || self.rows > 1;
        if !is_whole || !is_begun || rule.closes.get(self.closed) != Some(&id) {
            return Step::None;
        }
        self.closed += 1;
        if self.closed == rule.closes.len() { Step::Last } else { Step::Next }
    }
}

impl Reader<'_> {
    /// Reads a control token of a media part; other tokens are returned, and end a part that is open.
    pub(super) fn control_of_media(
        &mut self,
        place: Place,
        token: Control,
    ) -> Result<Place, (Place, Control)> {
        let grammar = self.bound.grammar();
        let begins = |turn: &Turn| {
            !turn.is_answer() && token.spelled.is_none() && grammar.opens_media(token.id)
        };
        let (turn, mut media) = match place {
            Place::In(turn, Within::Media(media)) => (turn, media),
            Place::In(turn, Within::Text(text)) if begins(&turn) => {
                let before = grammar.media.first().map_or("", |rule| &rule.before);
                let before = Suffix { literal: before.to_owned(), space: false };
                self.end_text(&turn, Within::Text(text), &before);
                let ways = (0..grammar.media.len()).map(Way::new).collect();
                let (opener, first, last) = (token.id, token.first, token.at);
                (turn, Box::new(MediaState { text, opener, first, last, ways }))
            }
            place => return Err((place, token)),
        };
        let mut whole = None;
        let held = self.machine.held.text();
        media.ways.retain(|way| way.text(&grammar.media[way.rule]) == held);
        media.ways.retain_mut(|way| match way.push(&grammar.media[way.rule], token.id) {
            Step::Next => true,
            Step::Last => {
                // Of two kinds that have the same tokens, the first.
                whole.get_or_insert(*way);
                true
            }
            Step::None => false,
        });
        if !media.ways.is_empty() {
            // The text belongs to the opener.
            self.machine.held.clear();
        }
        if let Some(way) = whole {
            let rule = &grammar.media[way.rule];
            let kind = EventKind::Media { kind: rule.kind, count: way.count, rows: way.rows };
            self.out.emit(kind, Some(media.first), token.at);
            let lead = (!rule.after.is_empty()).then_some(Lead::Media);
            return Ok(Place::In(turn, TextState { lead, ..TextState::new() }.into()));
        }
        if media.ways.is_empty() {
            let place = self.refuse_media(turn, &media);
            // The token may open another part.
            let is_other = matches!(&place, Place::In(turn, _) if begins(turn));
            return if is_other {
                self.control_of_media(place, token)
            } else {
                Err((place, token))
            };
        }
        media.last = token.at;
        Ok(Place::In(turn, Within::Media(media)))
    }

    /// Ends a part that is open, which is then none.
    pub(super) fn settle_media(&mut self, place: Place) -> Place {
        match place {
            Place::In(turn, Within::Media(media)) => self.refuse_media(turn, &media),
            place => place,
        }
    }

    /// Reads text within a part: that of its opener, or text after what is no part.
    pub(super) fn text_of_media(
        &mut self,
        turn: Turn,
        mut media: Box<MediaState>,
        piece: Piece<'_>,
    ) -> Place {
        let grammar = self.bound.grammar();
        self.machine.held.push(piece);
        let held = self.machine.held.text();
        let may_be = |way: &Way| way.text(&grammar.media[way.rule]).starts_with(held);
        if media.ways.iter().any(may_be) {
            media.ways.retain(may_be);
            return Place::In(turn, Within::Media(media));
        }
        self.refuse_media(turn, &media)
    }

    /// Reports the tokens of what is no part, and reads the text that came after them as that of the turn.
    fn refuse_media(&mut self, turn: Turn, media: &MediaState) -> Place {
        let spelling = self.spelling(media.opener);
        self.out.notice(NoticeKind::Malformed, spelling, Some(media.first), media.last);
        let text = TextState { lead: None, ..media.text };
        let (rest, first, at) = self.machine.held.take_all();
        self.text_of_turn(turn, text, Piece { text: &rest, first, at })
    }
}
