//! What a model may generate: the language of a completion, made from the grammar that is written and read by.
//!
//! In: a format with its vocabulary, tools, what the caller asks for, and the prompt. Out: an [`Expression`],
//! which each backend prints in a file of its own. Calls are control tokens by their ids, so that text that
//! spells one is neither a call nor forbidden.

mod answer;
mod automaton;
mod cache;
mod choice;
mod completion;
mod ebnf;
mod gbnf;
mod keywords;
mod lark;
mod prompt;
mod tools;
mod xgrammar;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::message::Node;
pub(crate) use cache::Cache;
use chatcodec_vocab::{TokenId, Vocab};
use choice::ToolChoice;
use ebnf::Texts;
use prompt::Opened;

/// What a caller asks of a completion, beside the tools and the choice among them.
///
/// ```
/// use chatcodec::ConstrainOptions;
///
/// let one = ConstrainOptions { parallel: false, ..ConstrainOptions::default() };
/// assert!(one.strict && one.reasoning.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstrainOptions {
    /// Whether there may be several calls.
    pub parallel: bool,
    /// Whether arguments follow the schemas of their tools; otherwise they are any object.
    pub strict: bool,
    /// Whether the completion has reasoning; by default, whether the model wants it.
    pub reasoning: Option<bool>,
}

impl Default for ConstrainOptions {
    fn default() -> Self {
        Self { parallel: true, strict: true, reasoning: None }
    }
}

/// What a caller gives to [`crate::Codec::constrain`] as values of its own.
#[derive(Debug, Clone, Copy)]
pub struct ConstrainRequest<'a, N> {
    /// Functions, as OpenAI's or Anthropic's clients write them.
    pub tools: Option<&'a N>,
    /// `"auto"`, `"required"`, `"none"`, or a dict that names functions.
    pub tool_choice: Option<&'a N>,
    /// What the text of the answer is: text, or JSON by a schema.
    pub response_format: Option<&'a N>,
    /// The prompt that the completion continues; by default any that ends with the generation prompt.
    pub prompt: Option<&'a [TokenId]>,
}

/// What a caller asks for, which a constraint is known by. Tools and schemas are JSON text: equal texts are cheaper to
/// find than to read.
#[derive(Debug, PartialEq)]
struct Asked {
    tools: String,
    choice: ToolChoice,
    answer: String,
    options: ConstrainOptions,
    opened: Opened,
}

impl Asked {
    fn new<N: Node>(
        bound: &Bound,
        given: &ConstrainRequest<'_, N>,
        options: ConstrainOptions,
    ) -> Result<Self> {
        let tools = given.tools.map(tools::text).transpose()?.unwrap_or_default();
        let choice = given.tool_choice.map(choice::read).transpose()?.unwrap_or_default();
        let answer = given.response_format.map(answer::text).transpose()?.unwrap_or_default();
        let prompt = given.prompt.unwrap_or_else(|| bound.prompt());
        let opened = Opened::new(bound, prompt)?;
        Ok(Self { tools, choice, answer, options, opened })
    }
}

/// What a model may generate, to be printed in the syntax of a backend.
///
/// ```
/// use chatcodec::{Codec, ConstrainOptions, ConstrainRequest, Format, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
/// let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": parameters}}]);
/// let request = ConstrainRequest {
///     tools: Some(&tools),
///     tool_choice: Some(&json!("required")),
///     response_format: None,
///     prompt: None,
/// };
/// let constraint = codec.constrain(&request, ConstrainOptions::default())?;
/// assert!(constraint.lark(false)?.contains("weather"));
/// assert!(constraint.weakened().is_empty());
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Constraint {
    start: Expression,
    /// What `start` and others share, by number.
    rules: Vec<Expression>,
    /// The schemas in it, with their places in the caller's values.
    schemas: Vec<(String, Arc<Value>)>,
    /// The places of the schemas that arguments do not follow.
    weakened: Vec<String>,
    /// The id that ends an answer.
    stop: Option<TokenId>,
    /// The vocabulary whose ids the expressions name.
    vocab: Vocab,
    /// The texts of GBNF that constraints of one codec share.
    texts: Arc<Texts>,
    /// The constraint in the syntax of each backend that has been asked for.
    printed: Printed,
}

#[derive(Debug, Clone, Default)]
struct Printed {
    lark: OnceLock<String>,
    structural_tag: OnceLock<String>,
    gbnf: OnceLock<String>,
}

impl Constraint {
    /// The constraint of a format's completions; one of `cache`, if the request is the same.
    pub(crate) fn new<N: Node>(
        bound: &Bound,
        cache: &Cache,
        given: &ConstrainRequest<'_, N>,
        options: ConstrainOptions,
    ) -> Result<Arc<Self>> {
        let made = Asked::new(bound, given, options)
            .and_then(|asked| cache.get_or_make(asked, |asked| Self::of(bound, cache, asked)));
        made.map_err(|error| match error {
            // The caller gave no prompt that could be wrong.
            Error::Message { path, .. } if path == "prompt" && given.prompt.is_none() => {
                let format = bound.format().described();
                let problem = format!(
                    "{format} has no answer after its own generation prompt that is asked for"
                );
                Error::message("format", problem)
            }
            error => error,
        })
    }

    fn of(bound: &Bound, cache: &Cache, asked: &Asked) -> Result<Self> {
        let Asked { choice, options, opened, .. } = asked;
        let tools = tools::read(&asked.tools, options.strict)?;
        let has_calls = !bound.format().calls().is_empty();
        let may_call = !tools.functions.is_empty() && !choice.is_none();
        if !has_calls && (may_call || choice.is_required()) {
            let problem = format!("has no calls in {}", bound.format().described());
            let path = if choice.is_required() { "tool_choice" } else { "tools" };
            return Err(Error::message(path, problem));
        }
        let tools = choice.allowed(tools)?;
        let answer = answer::read(&asked.answer, options.strict)?;
        let given = tools.functions.iter().filter(|tool| tool.has_schema);
        let given = given.map(|tool| (tool.path.clone(), tool.schema.clone()));
        let own = answer.iter().filter(|answer| answer.has_schema || options.strict);
        let own = own.map(|answer| (answer.path.clone(), answer.schema.clone()));
        let given = given.chain(own);
        let (mut weakened, mut schemas) = (Vec::new(), Vec::new());
        if options.strict {
            schemas.extend(given);
        } else {
            weakened.extend(given.map(|(path, _)| path));
        }
        let (start, rules) =
            completion::build(bound, &tools, choice, answer.as_ref(), *options, opened)?;
        let vocab = bound.vocab().clone();
        let (stop, texts) = (bound.grammar().stop_ids().first().copied(), cache.texts.clone());
        let printed = Printed::default();
        Ok(Self { start, rules, schemas, weakened, stop, vocab, texts, printed })
    }

    /// The constraint in llguidance's Lark.
    ///
    /// With `unicode_escapes`, strings of JSON may escape any character by its number, as some templates write them;
    /// llguidance before 1.8 refuses such a grammar.
    ///
    /// # Errors
    /// [`Error::Message`] for what llguidance cannot express.
    pub fn lark(&self, unicode_escapes: bool) -> Result<String> {
        if unicode_escapes {
            return lark::print(self, unicode_escapes);
        }
        once(&self.printed.lark, || lark::print(self, unicode_escapes))
    }

    /// The constraint as a structural tag of xgrammar, in JSON. It is exact with the tokens of
    /// [`Constraint::xgrammar_tokens`].
    ///
    /// # Errors
    /// [`Error::Message`] for what xgrammar cannot express.
    pub fn structural_tag(&self) -> Result<String> {
        once(&self.printed.structural_tag, || xgrammar::print(self))
    }

    /// The constraint in llama.cpp's GBNF, whose text spells no control token.
    ///
    /// # Errors
    /// [`Error::Message`] for what llama.cpp cannot express.
    pub fn gbnf(&self) -> Result<String> {
        once(&self.printed.gbnf, || gbnf::print(self))
    }

    /// The bytes of each id for xgrammar's `TokenizerInfo`: those of a control token begin with 0xFF, which is in no
    /// text, so that no text admits it.
    pub fn xgrammar_tokens(&self) -> Vec<Vec<u8>> {
        let bytes = |id: TokenId| {
            let bytes = self.vocab.token_bytes(id).unwrap_or_default();
            let is_control = self.vocab.is_control(id);
            let mark: &[u8] = if is_control { &[0xFF] } else { &[] };
            [mark, bytes].concat()
        };
        (0..self.vocab.size() as TokenId).map(bytes).collect()
    }

    /// The places of the schemas that arguments do not follow: `tools[0].function.parameters`.
    pub fn weakened(&self) -> &[String] {
        &self.weakened
    }
}

/// A text that is made when it is first asked for. An error is made each time.
fn once(cell: &OnceLock<String>, make: impl FnOnce() -> Result<String>) -> Result<String> {
    match cell.get() {
        Some(known) => Ok(known.clone()),
        None => make().map(|made| cell.get_or_init(|| made).clone()),
    }
}

/// A repetition, which all grammars write alike: at least so many times, and at most.
fn repeated(inner: &str, least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, Some(1)) => format!("({inner})?"),
        (0, None) => format!("({inner})*"),
        (1, None) => format!("({inner})+"),
        (least, None) => format!("({inner}){{{least},}}"),
        (least, Some(most)) => format!("({inner}){{{least},{most}}}"),
    }
}
