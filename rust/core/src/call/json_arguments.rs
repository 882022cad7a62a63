//! The call shape without a key of its own: arguments as one JSON value after a header.
//!
//! ```text
//! <|action_start|><|plugin|>f        (or any header that names the call)
//! {"city": "Rome", "days": 3}        the arguments {"city": "Rome", "days": 3}, byte for byte
//! {'city': 'Rome', 'days': None,}    the arguments {"city": "Rome", "days": null}, mended
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::Ended;
use super::shape::{ArgumentsReader, BoundShape, Language, Parsed, Shape, ShapeKeys, Written};
use crate::expression::{Expression, Rules};
use crate::json::{self, Mender};
use crate::path::Path;
use crate::schema::Parameters;
use chatcodec_vocab::{TokenId, Vocab};

#[derive(Debug, Clone, Copy)]
struct Json;

#[allow(clippy::unnecessary_wraps, reason = "every shape has such a function")]
pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    let shape = Shape { is_json: true, may_be_only_read: true, ..Shape::new(Json, LOSS) };
    Ok(keys.has_arguments.then_some(shape))
}

/// Arguments in JSON as a round trip gives them.
pub(crate) fn canonical(arguments: &str, vocab: &Vocab) -> String {
    // The reader unpacks a string that holds an object after the vocabulary has changed the text.
    let written = vocab.spaced(json::normalise_value(json::trim(arguments), vocab));
    json::unquoted(&written).unwrap_or_else(|| written.into_owned())
}

/// The change that a round trip makes to arguments in JSON.
pub(crate) const LOSS: &str = "arguments: without the white space around them, as JSON text if given as a dict; a string that holds an object, as that";

impl BoundShape for Json {
    fn write(&self, _: &str, _: &Vocab) -> Result<Vec<Written<'_>>, String> {
        Ok(vec![Written::Given])
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        canonical(arguments, vocab)
    }

    fn expression(&self, schema: &Arc<Value>, _: &mut Rules, _: Path<'_>) -> Language {
        Ok(Expression::Json(schema.clone()))
    }

    fn reader(self: Arc<Self>, _: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(RawScanner::default())
    }
}

/// Reads one JSON value up to its end. JSON is passed on byte for byte; a value in quotes or in Python is passed on as
/// the JSON that it means.
#[derive(Debug, Clone, Default)]
pub(super) struct RawScanner {
    value: Mender,
    begun: bool,
    /// The first character of the value.
    first: Option<char>,
    ended: bool,
}

impl RawScanner {
    /// Whether the value has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.begun && !self.ended
    }
}

impl ArgumentsReader for RawScanner {
    fn is_done(&self) -> bool {
        self.ended
    }

    fn is_in_string(&self) -> bool {
        self.value.is_in_string()
    }

    fn lacks(&self, _: TokenId) -> bool {
        self.is_open()
    }

    fn take_same(&mut self, text: &str) -> bool {
        self.is_open() && self.value.push_within(text)
    }

    fn take_joined(&mut self, text: &str, out: &mut String) -> bool {
        self.is_open() && self.value.push_joined(text, out)
    }

    /// White space before the value belongs to it.
    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut start = 0;
        if !self.begun {
            start = text.bytes().take_while(|&byte| json::is_space(byte)).count();
            self.begun = start < text.len();
        }
        let rest = &text[start..];
        if rest.is_empty() {
            return (text.len(), Cow::Borrowed(rest));
        }
        let (taken, said, ended) = self.value.push(rest);
        self.ended = ended;
        self.first = self.first.or_else(|| said.chars().next());
        (start + taken, said)
    }

    fn is_mended(&self) -> bool {
        self.value.is_mended()
    }

    fn finish(&mut self, _: Ended) -> String {
        self.value.finish()
    }

    fn is_complete(&self, ended: Ended) -> bool {
        match (self.begun, self.ended) {
            (false, _) => ended == Ended::Closed,
            (true, false) => self.value.is_complete_at_end(),
            (true, true) => self.value.is_valid(),
        }
    }

    fn is_scalar(&self) -> bool {
        self.first.is_some_and(|first| !matches!(first, '{' | '['))
    }
}
