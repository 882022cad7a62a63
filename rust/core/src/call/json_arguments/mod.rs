//! The call shape without a key of its own: arguments as one JSON value after a header.
//!
//! ```text
//! <|action_start|><|plugin|>f        (or any header that names the call)
//! {"city": "Rome", "days": 3}        the arguments {"city": "Rome", "days": 3}, byte for byte
//! {'city': 'Rome', 'days': None,}    the arguments {"city": "Rome", "days": null}, mended
//! ```

mod scanner;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::shape::{ArgumentsReader, BoundShape, Parsed, Shape, ShapeKeys, Written};
use super::{CallTags, Ended};
use crate::error;
use crate::expression::{Expression, Rules};
use crate::json;
use crate::path::Path;
use crate::pattern::Piece;
use crate::schema::Parameters;
use chatcodec_vocab::{ControlId, TokenId, Vocab};
pub(super) use scanner::RawScanner;

#[derive(Debug, Clone, Copy)]
struct Json;

#[allow(clippy::unnecessary_wraps, reason = "every shape has such a function")]
pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    Ok(keys.has_arguments.then(|| Arc::new(Json) as Arc<dyn Shape>))
}

/// Arguments in JSON as a round trip gives them.
pub(crate) fn canonical(arguments: &str, vocab: &Vocab) -> String {
    // The reader unpacks a string that holds an object after the vocabulary has changed the text.
    let written = vocab.spaced(json::normalise_value(json::trim(arguments), vocab));
    json::unquoted(&written).unwrap_or_else(|| written.into_owned())
}

/// The change that a round trip makes to arguments in JSON.
pub(crate) const LOSS: &str = "arguments: without the white space around them, as JSON text if given as a dict; a string that holds an object, as that";

impl Shape for Json {
    fn is_json(&self) -> bool {
        true
    }

    fn may_be_only_read(&self) -> bool {
        true
    }

    fn loss(&self) -> &'static str {
        LOSS
    }

    fn bind(
        &self,
        _: CallTags,
        _: &dyn Fn(&Piece) -> Vec<ControlId>,
        _: &Vocab,
    ) -> Result<Arc<dyn BoundShape>, String> {
        Ok(Arc::new(*self))
    }
}

impl BoundShape for Json {
    fn write(&self, _: &str, _: &Vocab) -> Result<Vec<Written<'_>>, String> {
        Ok(vec![Written::Given])
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        canonical(arguments, vocab)
    }

    fn expression(
        &self,
        schema: &Arc<Value>,
        _: &mut Rules,
        _: Path<'_>,
    ) -> error::Result<Expression> {
        Ok(Expression::Json(schema.clone()))
    }

    fn reader(&self, _: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(RawScanner::default())
    }
}

impl ArgumentsReader for RawScanner {
    fn boxed(&self) -> Box<dyn ArgumentsReader> {
        Box::new(self.clone())
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn is_in_string(&self) -> bool {
        self.is_in_string()
    }

    fn lacks(&self, _: TokenId) -> bool {
        self.is_open()
    }

    fn take_same(&mut self, text: &str) -> bool {
        self.is_same(text)
    }

    fn take_joined(&mut self, text: &str, out: &mut String) -> bool {
        self.push_joined(text, out)
    }

    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        self.push(text)
    }

    fn is_mended(&self) -> bool {
        self.is_mended()
    }

    fn finish(&mut self, _: Ended) -> String {
        self.finish()
    }

    fn is_complete(&self, ended: Ended) -> bool {
        if self.is_empty() { ended == Ended::Closed } else { self.is_complete() }
    }

    fn is_scalar(&self) -> bool {
        self.is_scalar()
    }
}
