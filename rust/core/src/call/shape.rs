//! Call shapes: the ways to write the arguments of a call after a header that names it.
//!
//! A shape is a folder of `call` and a line of [`DECLARED`]. The folder reads the shape's keys of a format file,
//! checks what an item has after `{arguments}`, binds control tokens, writes arguments, reads them as they come,
//! and gives the form that a round trip gives them. A call that is one JSON object ([`super::json_object`]) and
//! code have no arguments after a header.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::{CallTags, Ended, Mended, Prefix, json_arguments, nested, python, quoted, tagged};
use crate::error::{self, Checked, wrong};
use crate::expression::{Expression, Rules};
use crate::path::Path;
use crate::pattern::Piece;
use crate::schema::Parameters;
use chatcodec_vocab::{ControlId, TokenId, Vocab};

/// The shape of a table, if the table has the keys of that shape.
pub(crate) type Parsed = Checked<Option<Shape>>;

/// A shape as its folder declares it.
struct Declaration {
    /// Its keys in a `[call.X]` table; the shape without any is used where no other key is.
    keys: &'static [&'static str],
    parse: fn(&ShapeKeys<'_>) -> Parsed,
}

/// All shapes. The first that recognises its keys is taken.
const DECLARED: &[Declaration] = &[
    Declaration { keys: &["pair", "list_item"], parse: nested::parse },
    Declaration { keys: &["pair"], parse: python::shape::parse },
    Declaration { keys: &["pair", "wrap", "escapes", "words"], parse: tagged::shape::parse },
    Declaration { keys: &["quote"], parse: quoted::parse },
    Declaration { keys: &[], parse: json_arguments::parse },
];

/// The keys of a `[call.X]` table that say how its arguments are written.
pub(crate) struct ShapeKeys<'a> {
    /// The table's own key: `call.function`.
    pub(crate) key: &'a str,
    pub(crate) table: &'a toml::Table,
    /// Whether an item has `{arguments}`.
    pub(crate) has_arguments: bool,
    /// Reads a pattern, given its key.
    pub(crate) pattern: &'a dyn Fn(&str, &str) -> Checked<Vec<Piece>>,
}

impl<'a> ShapeKeys<'a> {
    /// The text of a key, if the table has the key.
    pub(crate) fn text(&self, name: &str) -> Checked<Option<&'a str>> {
        match self.table.get(name) {
            None => Ok(None),
            Some(toml::Value::String(text)) => Ok(Some(text)),
            Some(_) => wrong(format!("{}.{name}", self.key), "is not a string, expected one"),
        }
    }
}

/// The names of all keys of shapes.
pub(crate) fn keys() -> Vec<&'static str> {
    let mut keys: Vec<&str> = Vec::new();
    for key in DECLARED.iter().flat_map(|declared| declared.keys) {
        if !keys.contains(key) {
            keys.push(key);
        }
    }
    keys
}

/// The shape that a table declares; none for a call without `{arguments}`, which is code.
pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Checked<Option<Arc<Shape>>> {
    for declared in DECLARED {
        let Some(shape) = (declared.parse)(keys)? else { continue };
        let is_other =
            |key: &&&str| !declared.keys.contains(*key) && keys.table.contains_key(**key);
        if let Some(other) = self::keys().iter().find(is_other) {
            let problem = format!(
                "is given together with `{}`, expected one of them",
                declared.keys.join("`, `")
            );
            return wrong(format!("{}.{other}", keys.key), problem);
        }
        return Ok(Some(Arc::new(shape)));
    }
    Ok(None)
}

/// A call shape as a format file declares it.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing of the shape")]
pub(crate) struct Shape {
    pub(super) syntax: Box<dyn Syntax>,
    /// The patterns within the arguments. Their control tokens occur nowhere else.
    pub(crate) patterns: Vec<Vec<Piece>>,
    /// The number of the pattern whose tokens end a tag, and may end headers too.
    pub(crate) end_of_tag: Option<usize>,
    /// What an item has after `{arguments}`.
    pub(crate) after: After,
    /// Whether each pair begins with what no word holds, so that a word may stand right before the arguments.
    pub(crate) ends_word: bool,
    /// Whether the arguments are one JSON value.
    pub(crate) is_json: bool,
    /// Whether a call without a control token of its own may be part of a block of calls.
    pub(crate) may_be_in_block: bool,
    /// Whether a way to write calls that is only read may have this shape.
    pub(crate) may_be_only_read: bool,
    /// The beginning of an unmarked call of this shape, if it decides that the text is a call.
    pub(crate) prefix: Option<Prefix>,
    /// The parts of arguments that a round trip does not keep.
    pub(crate) loss: &'static str,
}

/// What an item has after `{arguments}`.
#[derive(Debug)]
pub(crate) enum After {
    Any,
    /// Text that begins so; the reader of the arguments takes the beginning itself.
    Text(&'static str),
    /// This text and no more, which the reader of the arguments takes itself.
    Alone(&'static str),
    Control,
    /// No text that begins as this tag does.
    NoTag(String),
}

impl Shape {
    pub(crate) fn new(syntax: impl Syntax + 'static, loss: &'static str) -> Self {
        Self {
            syntax: Box::new(syntax),
            patterns: Vec::new(),
            end_of_tag: None,
            after: After::Any,
            ends_word: false,
            is_json: false,
            may_be_in_block: false,
            may_be_only_read: false,
            prefix: None,
            loss,
        }
    }

    /// Checks what an item has after `{arguments}`, and returns what the rules for the end of a pattern check.
    pub(crate) fn check_after<'p>(&self, key: &str, after: &'p [Piece]) -> Checked<&'p [Piece]> {
        let problem = match (&self.after, after) {
            (After::NoTag(tag), [Piece::Literal(text), ..]) if begin_alike(text, tag) => {
                "goes on after its arguments as a further pair would begin, expected other text there".to_owned()
            }
            (After::Any | After::NoTag(_), _) | (After::Control, [Piece::Control(_), ..]) => {
                return Ok(after);
            }
            (After::Text(own), [Piece::Literal(text), rest @ ..]) if text.starts_with(own) => {
                return Ok(rest);
            }
            (After::Alone(own), [Piece::Literal(text), rest @ ..]) if text == own => {
                return Ok(rest);
            }
            (After::Text(own), _) => {
                format!("has no `{own}` after its arguments, expected text that begins with `{own}`")
            }
            (After::Alone(own), _) => {
                format!("has no `{own}` after its arguments, expected it alone")
            }
            (After::Control, _) => {
                "has no control token right after its arguments, expected one".to_owned()
            }
        };
        wrong(key, problem)
    }

    /// The beginning of the text after `{arguments}` that the reader of the arguments takes itself.
    pub(crate) fn own_end(&self) -> &'static str {
        match self.after {
            After::Text(own) | After::Alone(own) => own,
            After::Any | After::Control | After::NoTag(_) => "",
        }
    }

    /// Puts the ids of a vocabulary in. `around` is the text around the calls; `ids` gives the ids of a piece that is a
    /// control token, `vocab` has its tags.
    pub(crate) fn bind(&self, around: CallTags, ids: Ids<'_>, vocab: &Vocab) -> Bound {
        self.syntax.bind(around, ids, vocab)
    }
}

/// Whether a text begins with a tag, or a tag with the text. White space around either does not count.
fn begin_alike(text: &str, tag: &str) -> bool {
    let (text, tag) = (text.trim_start(), tag.trim());
    !text.is_empty() && (text.starts_with(tag) || tag.starts_with(text.trim_end()))
}

/// The ids of a piece that is a control token.
pub(crate) type Ids<'a> = &'a dyn Fn(&Piece) -> Vec<ControlId>;

/// A shape with the ids of a vocabulary, or what it lacks.
pub(crate) type Bound = Result<Arc<dyn BoundShape>, String>;

/// How arguments are written, before the ids of a vocabulary are known.
pub(crate) trait Syntax: Debug + Send + Sync {
    fn bind(&self, around: CallTags, ids: Ids<'_>, vocab: &Vocab) -> Bound;
}

/// A syntax without control tokens.
impl<S: BoundShape + Copy + 'static> Syntax for S {
    fn bind(&self, _: CallTags, _: Ids<'_>, _: &Vocab) -> Bound {
        Ok(Arc::new(*self))
    }
}

/// The language of arguments that follow a schema, or the part of the schema that their shape cannot express.
pub(crate) type Language = error::Result<Expression>;

/// A call shape with the ids of a vocabulary.
pub(crate) trait BoundShape: Debug + Send + Sync {
    /// The control tokens within the arguments.
    fn control(&self) -> &[ControlId] {
        &[]
    }

    /// Arguments, one JSON value without white space around it, as they are written.
    ///
    /// # Errors
    /// What is wrong with arguments that this shape cannot write so that they read back.
    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String>;

    /// The JSON that arguments read back as.
    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String;

    /// The language of arguments that follow a schema, which is one of objects; `path` is its place.
    fn expression(&self, schema: &Arc<Value>, rules: &mut Rules, path: Path<'_>) -> Language;

    /// A reader of arguments; `parameters` are those of the tool that is called.
    fn reader(self: Arc<Self>, parameters: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader>;

    /// Whether arguments that nothing closes end where the next call, or the end of the turn, begins.
    fn ends_at_next(&self) -> bool {
        false
    }

    /// The beginning of the next call in text after arguments, and whether the end of a call
    /// precedes it.
    fn next_call(&self, text: &str) -> Option<(usize, bool)> {
        let _ = text;
        None
    }

    /// The texts that the header of a call begins with, where they mark a call without its control token.
    fn opens(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A part of written arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written<'a> {
    /// Text of the format.
    Text(Cow<'a, str>),
    /// A control token of the format.
    Control(TokenId),
    /// Text made of the caller's arguments, normalised.
    Value(String),
    /// The caller's JSON as it is.
    Given,
}

/// Reads the arguments of one call, piece by piece.
pub(crate) trait ArgumentsReader: Boxed + Debug + Send + Sync {
    /// Whether the arguments have ended by themselves.
    fn is_done(&self) -> bool;

    /// Whether a string has begun and not ended: a marker in it ends nothing.
    fn is_in_string(&self) -> bool {
        false
    }

    /// Whether a control token that means nothing here is missing in a key or a value.
    fn lacks(&self, id: TokenId) -> bool;

    /// Reads text of the arguments whose JSON spelling is the same; returns `false` and reads
    /// nothing otherwise.
    fn take_same(&mut self, text: &str) -> bool;

    /// Reads text with a comma before or after it, where the comma is emitted with the next value; appends what is
    /// emitted. Reads nothing of any other text, and returns `false`.
    fn take_joined(&mut self, text: &str, out: &mut String) -> bool {
        let _ = (text, out);
        false
    }

    /// Sets the parameters that decide the types of the following values.
    fn read_by(&mut self, parameters: Option<Arc<Parameters>>) {
        let _ = parameters;
    }

    /// Reads text: the number of bytes that belong to the arguments, and the JSON that they mean.
    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>);

    /// Reads a control token: whether it belongs to the arguments, and the JSON that it means.
    fn push_control(&mut self, id: TokenId) -> (bool, String) {
        let _ = id;
        (false, String::new())
    }

    /// Text that was read and comes after the arguments.
    fn take_rest(&mut self) -> String {
        String::new()
    }

    /// Text within the arguments that is not part of them.
    fn take_odd(&mut self) -> String {
        String::new()
    }

    /// What was mended since the last call.
    fn take_mended(&mut self) -> Option<Mended> {
        None
    }

    /// Whether the arguments are JSON that was written otherwise.
    fn is_mended(&self) -> bool {
        false
    }

    /// Ends the arguments and returns the JSON of the held text.
    fn finish(&mut self, ended: Ended) -> String;

    /// Whether the arguments are whole; asked after [`ArgumentsReader::finish`].
    fn is_complete(&self, ended: Ended) -> bool;

    /// Whether the arguments are a JSON value other than an object or a list. With text after them, they are the first
    /// key of an object whose brace is missing.
    fn is_scalar(&self) -> bool {
        false
    }
}

/// A reader that can be copied in its box.
pub(crate) trait Boxed {
    /// A copy in the same state.
    fn boxed(&self) -> Box<dyn ArgumentsReader>;
}

impl<R: ArgumentsReader + Clone + 'static> Boxed for R {
    fn boxed(&self) -> Box<dyn ArgumentsReader> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn ArgumentsReader> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
