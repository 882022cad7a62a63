//! Arguments as nested tags.

use super::super::shape::Written;
use super::super::write::{check_object, check_text};
use super::{MAX_DEPTH, Style};
use crate::json::{self, Token, Tokens};
use chatcodec_vocab::TokenId;

/// An object or a list that is open.
struct Open {
    /// The key of the closing tag; none for the arguments themselves.
    key: Option<String>,
    is_list: bool,
    /// Whether a member or an item was written.
    has_any: bool,
    /// Whether the first member has the key of items, so that a reader takes the object for a list.
    is_like_list: bool,
}

struct Writer<'s> {
    style: &'s Style,
    written: Vec<Written<'s>>,
    open: Vec<Open>,
    /// The key of the next value.
    key: Option<String>,
}

/// The tags with the meaning of `arguments`, one JSON value with the spaces of `json.dumps`.
///
/// # Errors
/// What cannot be written so that it reads back.
pub(super) fn write<'s>(arguments: &str, style: &'s Style) -> Result<Vec<Written<'s>>, String> {
    check_object(arguments, MAX_DEPTH)?;
    check_text(arguments)?;
    let mut writer = Writer { style, written: Vec::new(), open: Vec::new(), key: None };
    for (_, token) in Tokens::of(arguments) {
        match token {
            Token::Key(raw) => {
                let key = json::unescape(raw);
                style.check_key(&key)?;
                writer.key = Some(key);
            }
            Token::Text(raw) => writer.leaf(json::unescape(raw))?,
            Token::Word(word) => writer.word(word)?,
            Token::Open(bracket) => writer.begin(bracket == '[')?,
            Token::Close(_) => writer.end(),
            Token::Colon | Token::Comma => {}
        }
    }
    Ok(writer.written)
}

impl<'s> Writer<'s> {
    /// A number, a boolean or null.
    fn word(&mut self, word: &str) -> Result<(), String> {
        match (word, self.open.last()) {
            ("null", Some(Open { is_list: true, .. })) => self.leaf(String::new()),
            ("null", _) => {
                self.key = None;
                Ok(())
            }
            _ => self.leaf(word.to_owned()),
        }
    }

    fn leaf(&mut self, text: String) -> Result<(), String> {
        let key = self.open_tag()?;
        self.written.push(Written::Value(text));
        self.close_tag(&key);
        Ok(())
    }

    fn begin(&mut self, is_list: bool) -> Result<(), String> {
        let key = if self.open.is_empty() { None } else { Some(self.open_tag()?) };
        self.open.push(Open { key, is_list, has_any: false, is_like_list: false });
        Ok(())
    }

    fn end(&mut self) {
        if let Some(key) = self.open.pop().and_then(|open| open.key) {
            self.close_tag(&key);
        }
    }

    /// Writes the tag that opens a value, and returns its key.
    fn open_tag(&mut self) -> Result<String, String> {
        let item = &self.style.item;
        let Some(parent) = self.open.last_mut() else { return Ok(String::new()) };
        let key = self.key.take().filter(|_| !parent.is_list).unwrap_or_else(|| item.clone());
        // The arguments themselves are an object.
        if !parent.is_list && parent.key.is_some() {
            parent.is_like_list |= !parent.has_any && key == *item;
            if parent.is_like_list && key != *item {
                return Err(format!(
                    "has an object whose first key is {item:?} and that has others, which would be read as a list"
                ));
            }
        }
        parent.has_any = true;
        self.tag(self.style.open[0], &key, &self.style.open_end);
        Ok(key)
    }

    fn close_tag(&mut self, key: &str) {
        self.tag(self.style.close[0], key, &self.style.close_end);
    }

    fn tag(&mut self, token: TokenId, key: &str, end: &'s str) {
        self.written.push(Written::Control(token));
        self.written.push(Written::Value(key.to_owned()));
        self.written.push(Written::Text(end.into()));
    }
}
