//! The call shape `quote = "{QUOTE}"`: the members of a JSON object with bare keys, and strings between two control
//! tokens: `location:<q>Paris<q>,days:3`, up to the brace that closes the object.
//!
//! ```text
//! city:<q>Rome<q>,days:3,at:{hour:9}}    {"city": "Rome", "days": 3, "at": {"hour": 9}}
//! ```

mod lookahead;
mod reader;

use std::sync::Arc;

use serde_json::Value;

use super::CallTags;
use super::shape::{
    After, ArgumentsReader, Bound, BoundShape, Ids, Language, Parsed, Shape, ShapeKeys, Syntax,
    Written,
};
use super::write::{as_read, check_object, check_text};
use crate::error::wrong;
use crate::expression::{Rules, spelling_between};
use crate::json::{self, Token, Tokens};
use crate::path::Path;
use crate::pattern::Piece;
use crate::schema::Parameters;
use crate::schema::values::{JSON, Keys, Values};
use chatcodec_vocab::{ControlId, TokenId, Vocab};
pub(super) use reader::Reader;

/// Longer keys are refused: a reader holds a key until the key is complete.
const MAX_KEY_BYTES: usize = 1024;

/// Arguments that are nested deeper are refused.
const MAX_DEPTH: usize = 256;

/// The characters that end a bare key or a bare value.
const ENDS: [char; 6] = [':', ',', '{', '}', '[', ']'];

/// The keys of arguments that a model generates.
const KEYS: Keys<'_> = Keys {
    is_key: &is_bare,
    any: r#"[^\s"':,{}\[\]\\\x00-\x1f\x7f]{1,64}"#,
    between: ":",
    problem: "is a key that calls cannot have here, expected one without white space, quotes or any of `:,{}[]`",
};

#[derive(Debug)]
struct Quoted {
    quote: Piece,
}

pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    let Some(quote) = keys.text("quote")? else { return Ok(None) };
    let key = format!("{}.quote", keys.key);
    match <[Piece; 1]>::try_from((keys.pattern)(&key, quote)?) {
        Ok([quote @ Piece::Control(_)]) => {
            let loss = "arguments: their spelling, they come back as `json.dumps` writes them";
            Ok(Some(Shape {
                patterns: vec![vec![quote.clone()]],
                after: After::Alone("}"),
                ..Shape::new(Quoted { quote }, loss)
            }))
        }
        _ => wrong(key, "is not one control token, expected the token around strings"),
    }
}

impl Syntax for Quoted {
    fn bind(&self, _: CallTags, ids: Ids<'_>, _: &Vocab) -> Bound {
        let quotes = ids(&self.quote);
        if quotes.is_empty() {
            return Err("has a quote without ids".to_owned());
        }
        Ok(Arc::new(BoundQuoted { quotes }))
    }
}

/// The shape with the ids of its quote: the first is written, all are read.
#[derive(Debug)]
struct BoundQuoted {
    quotes: Vec<ControlId>,
}

impl BoundShape for BoundQuoted {
    fn control(&self) -> &[ControlId] {
        &self.quotes
    }

    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String> {
        let arguments = as_read(arguments, vocab);
        check_object(&arguments, MAX_DEPTH)?;
        check_text(&arguments)?;
        write(&arguments, self.quotes[0].get())
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        json::respace_only(&as_read(arguments, vocab))
    }

    fn expression(&self, schema: &Arc<Value>, rules: &mut Rules, path: Path<'_>) -> Language {
        // Control tokens stand around each text.
        let except = spelling_between(rules.ends().iter().map(String::as_str), "", "");
        let values = Values::new(schema, rules, JSON, except);
        values.with_bare_keys(self.quotes[0].get(), &KEYS).arguments_by_key(&KEYS, path)
    }

    fn reader(self: Arc<Self>, _: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(Reader::new(self.quotes.iter().map(|id| id.get()).collect()))
    }
}

/// Writes the members of a JSON object, without its braces.
fn write(arguments: &str, quote: TokenId) -> Result<Vec<Written<'static>>, String> {
    let quote = Written::Control(quote);
    let mut written = Vec::new();
    for (_, token) in Tokens::of(arguments).filter(|(depth, _)| *depth > 0) {
        match token {
            Token::Key(raw) => {
                let key = json::unescape(raw);
                check_key(&key)?;
                written.push(Written::Value(key));
            }
            Token::Text(raw) => {
                written.extend([quote.clone(), Written::Value(json::unescape(raw)), quote.clone()]);
            }
            Token::Word(word) => written.push(Written::Value(word.to_owned())),
            Token::Open(sign) | Token::Close(sign) => {
                written.push(Written::Text(sign.to_string().into()));
            }
            Token::Colon => written.push(Written::Text(":".into())),
            Token::Comma => written.push(Written::Text(",".into())),
        }
    }
    Ok(written)
}

/// Refuses a key that does not read back without quotes.
fn check_key(key: &str) -> Result<(), String> {
    if is_bare(key) {
        return Ok(());
    }
    Err(format!(
        "has the key {key:?}, expected 1 to {MAX_KEY_BYTES} bytes without white space, quotes or any of `:,{{}}[]`"
    ))
}

/// Whether a key reads back without quotes.
fn is_bare(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && !key
            .contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'') || ENDS.contains(&c))
}
