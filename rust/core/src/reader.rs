//! The format that reads the completions of a model whose template writes its conversations.
//!
//! In: a template and a vocabulary. Out: the built-in format that writes the same; or else a format derived from the
//! template, whose rows were found by rendering short conversations; or else one that reads text up to the id that
//! stops the model. Cost: the probes of recognition, and seven short renderings.

use std::fmt::Write;
use std::slice;

use chatcodec_vocab::{TokenId, Vocab};

use crate::codec::Codec;
use crate::conversation::Values;
use crate::encode::EncodeOptions;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::message::{Message, Owned, Role};
use crate::recognise::{Recognised, recognise_template};
use crate::span::SpanKind;
use crate::template::Template;
use crate::templated::TemplateWriter;

/// How completions are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// A built-in format, which writes what the template does.
    Recognised(Recognised),
    /// A format that was derived from the template: texts of messages, without calls and reasoning.
    Derived,
    /// Text up to the id that stops the model.
    Text,
    /// A format that the caller named.
    Named,
}

impl Codec {
    /// Binds a template, and a format that is known to read its completions so.
    ///
    /// # Errors
    /// [`Error::Vocab`] if the vocabulary lacks control tokens of the format.
    pub fn with_reader(
        template: &Template,
        own: &[(String, String)],
        format: &Format,
        vocab: &Vocab,
        reader: &Reader,
    ) -> Result<Self> {
        let codec = Self::with_template(template, own, format, vocab)?;
        Ok(if *reader == Reader::Text { codec.without_prompts() } else { codec })
    }

    /// Binds a template to a vocabulary; completions are read by the format that fits it.
    ///
    /// # Errors
    /// [`Error::Vocab`] if the vocabulary has no control token that ends a turn.
    pub fn of_template(
        template: &Template,
        own: &[(String, String)],
        vocab: &Vocab,
    ) -> Result<(Self, Reader)> {
        if let Ok(found) = recognise_template(template, own, vocab) {
            let format = Format::built_in(&found.format)?;
            let codec = Self::with_template(template, own, &format, vocab)?;
            return Ok((codec, Reader::Recognised(found)));
        }
        let writer = TemplateWriter::new(template, own, vocab);
        check_writes(&writer, vocab)?;
        let format = text_format(&writer, vocab)?;
        let plain = Self::with_template(template, own, &format, vocab)?.without_prompts();
        let probes = Probes { plain: &plain, writer: &writer, vocab, control: Vec::new() };
        if let Some(format) = probes.derive() {
            return Ok((Self::with_template(template, own, &format, vocab)?, Reader::Derived));
        }
        Ok((plain, Reader::Text))
    }
}

/// Checks that a template writes a question, after a system message at least.
fn check_writes(writer: &TemplateWriter, vocab: &Vocab) -> Result<()> {
    let question = message(Role::User, QUESTION);
    let options = EncodeOptions::default();
    let written = |messages: &[Message]| writer.write(&values(messages), vocab, &options);
    let rendered = written(slice::from_ref(&question))
        .or_else(|error| written(&[message(Role::System, SYSTEM), question]).map_err(|_| error));
    let problem = match rendered {
        Ok(written) if !written.rendered.text.is_empty() => return Ok(()),
        Ok(_) => "writes nothing of a user's question".to_owned(),
        Err(error @ Error::Template { .. }) => return Err(error),
        Err(error) => format!("refuses a user's question: {error}"),
    };
    let problem = format!("{problem}; expected a chat template, or `format=`");
    Err(Error::Format { file: "template".into(), key: String::new(), problem })
}

/// Texts of letters alone, which no template changes.
const SYSTEM: &str = "Sqwz";
const QUESTION: &str = "Qwzk";
const ANSWER: &str = "Awzk";
const LATER: &str = "Lwzk";

/// What a derived format has to read.
struct Expected {
    messages: Vec<Message>,
    /// Ids of the messages.
    whole: Vec<TokenId>,
    /// Ids of the first message with the generation prompt.
    prompt: Vec<TokenId>,
}

/// Whether a format reads a conversation and a completion as they are.
fn is_read(codec: &Codec, expected: &Expected) -> bool {
    let mut completion = codec.vocab().encode(ANSWER);
    completion.extend(codec.stop_ids().first());
    let parsed = codec.parse(&completion, Some(&expected.prompt));
    let read = codec.decode(&expected.whole);
    let read: Vec<&Message> = read.iter().filter(|it| it.role != Role::System).collect();
    parsed.message.content == ANSWER && read.into_iter().eq(&expected.messages)
}

fn message(role: Role, text: &str) -> Message {
    Message::new(role, text)
}

fn values(messages: &[Message]) -> Values {
    Values { messages: Owned::List(messages.iter().map(Owned::of_message).collect()), tools: None }
}

/// Renderings of short conversations, as patterns of a format file.
struct Probes<'a> {
    /// A codec of the template that reads text alone.
    plain: &'a Codec,
    writer: &'a TemplateWriter,
    vocab: &'a Vocab,
    /// Control tokens of the patterns: `{C0}` is the first.
    control: Vec<TokenId>,
}

impl Probes<'_> {
    /// What a template writes, with `{C0}` for control tokens.
    fn pattern(&mut self, messages: &[Message], prompted: bool) -> Option<String> {
        let options =
            EncodeOptions { add_generation_prompt: Some(prompted), ..EncodeOptions::default() };
        let rendered = self.writer.write(&values(messages), self.vocab, &options).ok()?.rendered;
        let mut pattern = String::new();
        for span in &rendered.spans {
            if let SpanKind::Control(id) = span.kind {
                let known = self.control.iter().position(|known| *known == id.get());
                let at = known.unwrap_or(self.control.len());
                if known.is_none() {
                    self.control.push(id.get());
                }
                let _ = write!(pattern, "{{C{at}}}");
            } else {
                pattern.push_str(&rendered.text[span.text.clone()]);
            }
        }
        Some(pattern)
    }

    /// A format of the template's plain rows: the first of several cuts that reads what the template writes.
    fn derive(mut self) -> Option<Format> {
        use Role::{Assistant, System, User};
        let (question, answer) = (message(User, QUESTION), message(Assistant, ANSWER));
        let (system, later) = (message(System, SYSTEM), message(User, LATER));
        let asked = self.pattern(slice::from_ref(&question), false)?;
        let prompted = self.pattern(slice::from_ref(&question), true)?;
        let answered = self.pattern(&[question.clone(), answer.clone()], false)?;
        let history = vec![question.clone(), answer, later];
        let followed = self.pattern(&history, false)?;
        let instructed = self.pattern(&[system, question.clone()], false);

        let (before, user_end) = asked.split_once(QUESTION)?;
        let (_, prompt) = prompted.split_once(QUESTION)?;
        let (_, assistant_end) = answered.split_once(ANSWER)?;
        let (_, rest) = followed.split_once(QUESTION)?;
        let (between, rest) = rest.split_once(ANSWER)?;
        let (after, _) = rest.split_once(LATER)?;
        let user_head = head_after(after, assistant_end);
        let begin = before.strip_suffix(user_head)?;
        let system = instructed.as_deref().and_then(|instructed| {
            let (head, rest) = instructed.split_once(SYSTEM)?;
            let (end, _) = rest.split_once(QUESTION)?;
            Some((head, end.strip_suffix(user_head)?))
        });
        let expected = self.expected(&history)?;
        // Where the question's turn ends and the answer's begins: before one of the control tokens between them.
        let mut cuts: Vec<usize> = between.match_indices("{C").map(|(at, _)| at).collect();
        cuts.retain(|at| *at > 0);
        if between.starts_with(user_end) {
            cuts.insert(0, user_end.len());
        }
        for cut in cuts {
            let (user_end, assistant_head) = between.split_at(cut);
            let Some(prompt) = prompt.strip_prefix(user_end) else { continue };
            for begin in begins(begin) {
                let system = system.and_then(|(head, end)| Some((head.strip_prefix(begin)?, end)));
                for system in [system, None] {
                    let rows = Rows {
                        begin,
                        prompt: shared_prompt(prompt, assistant_head),
                        system,
                        user: (user_head, user_end),
                        assistant: (assistant_head, assistant_end),
                    };
                    let file = rows.file(&self.control, self.vocab);
                    if let Ok(format) = Format::parse("template", &file)
                        && let Ok(codec) = Codec::new(&format, self.vocab)
                        && is_read(&codec, &expected)
                    {
                        return Some(format);
                    }
                }
            }
        }
        None
    }

    /// The ids of a conversation, and of its question with the generation prompt.
    fn expected(&self, history: &[Message]) -> Option<Expected> {
        let ids = |messages: &[Message], prompted| {
            let options =
                EncodeOptions { add_generation_prompt: Some(prompted), ..EncodeOptions::default() };
            let encoding = self.plain.encode(messages.to_vec(), None, &options);
            Some(encoding.ok()?.ids().to_vec())
        };
        let whole = ids(history, false)?;
        Some(Expected { messages: history.to_vec(), whole, prompt: ids(&history[..1], true)? })
    }
}

/// Candidates for the text before the first turn: all of it, its first control token alone, nothing.
fn begins(begin: &str) -> Vec<&str> {
    let mut begins = vec![begin];
    if let Some(end) = begin.find('}')
        && end + 1 < begin.len()
    {
        begins.push(&begin[..=end]);
    }
    if !begin.is_empty() {
        begins.push("");
    }
    begins
}

/// The head of a turn: `after` without the end of the turn before, or else from the last control token on.
fn head_after<'a>(after: &'a str, end: &str) -> &'a str {
    after.strip_prefix(end).unwrap_or_else(|| &after[after.rfind("{C").unwrap_or(0)..])
}

/// The generation prompt, without what an answer in a conversation does not begin with.
fn shared_prompt<'a>(prompt: &'a str, head: &str) -> &'a str {
    match prompt.strip_prefix(head) {
        Some(_) => &prompt[..head.len()],
        None => prompt,
    }
}

/// Rows of a derived format: the text before and after each content.
struct Rows<'a> {
    begin: &'a str,
    prompt: &'a str,
    system: Option<(&'a str, &'a str)>,
    user: (&'a str, &'a str),
    assistant: (&'a str, &'a str),
}

impl Rows<'_> {
    /// The format file.
    fn file(&self, control: &[TokenId], vocab: &Vocab) -> String {
        let string = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let row = |(head, end): (&str, &str)| string(&format!("{head}{{content}}{end}"));
        let guarantee = if self.assistant.1.contains("{C") { "ids" } else { "text" };
        let mut rows = String::new();
        if let Some(system) = self.system {
            let _ = writeln!(rows, "system = {}", row(system));
        }
        let _ = writeln!(rows, "user = {}\nassistant = {}", row(self.user), row(self.assistant));
        let mut file = format!(
            "name = \"template\"\nguarantee = \"{guarantee}\"\nsource = \"a chat template\"\n\
             vocabulary = \"the model's\"\nbegin = {}\ngeneration = {{ prompt = {} }}\n[control]\n",
            string(self.begin),
            string(self.prompt)
        );
        if self.begin.is_empty() {
            file = file.replace("begin = \"\"\n", "");
        }
        for (at, id) in control.iter().enumerate() {
            let name = format!("{{C{at}}}");
            if [&rows, self.begin, self.prompt].iter().any(|text| text.contains(&name)) {
                let _ = writeln!(file, "C{at} = {}", string(vocab.spelling(*id)));
            }
        }
        file + "[turn]\n" + &rows
    }
}

/// The format that reads text up to the control token that ends an answer.
fn text_format(writer: &TemplateWriter, vocab: &Vocab) -> Result<Format> {
    let history = [
        message(Role::User, QUESTION),
        message(Role::Assistant, ANSWER),
        message(Role::User, LATER),
    ];
    let options = EncodeOptions { add_generation_prompt: Some(false), ..EncodeOptions::default() };
    // What follows the answer in a conversation, or else at its end.
    let after = |history: &[Message]| {
        let rendered = writer.write(&values(history), vocab, &options).ok()?.rendered;
        let said = rendered.text.find(ANSWER)?;
        rendered.spans.iter().find_map(|span| match span.kind {
            SpanKind::Control(id) if span.text.start > said => Some(id.get()),
            _ => None,
        })
    };
    let control = after(&history).or_else(|| after(&history[..2]));
    let own = writer.own().iter().find(|(name, _)| name == "eos_token");
    let own = own.and_then(|(_, text)| vocab.control().get(text).copied());
    let stop = control.or(own);
    // The format has to have heads of turns, which are never read.
    let heads = |stop: TokenId| -> Option<(TokenId, TokenId)> {
        let mut others = vocab.control().values().copied().filter(move |id| *id != stop);
        let first = others.next()?;
        Some((first, others.find(|id| *id != first)?))
    };
    let Some((stop, (head, user))) = stop.and_then(|stop| Some((stop, heads(stop)?))) else {
        let problem = "has no control token that ends the template's turns, or fewer than three in all; expected the \
                       model's own vocabulary, or `reader=`, a format";
        return Err(Error::vocab("control", problem));
    };
    let spelled = |id| serde_json::to_string(vocab.spelling(id)).unwrap_or_default();
    let file = format!(
        "name = \"text\"\nguarantee = \"ids\"\nsource = \"a chat template\"\nvocabulary = \"the model's\"\n\
         generation = {{ prompt = \"{{HEAD}}\" }}\n[control]\nSTOP = {}\nHEAD = {}\nUSER = {}\n\
         [turn]\nuser = \"{{USER}}{{content}}\"\nassistant = \"{{HEAD}}{{content}}{{STOP}}\"\n",
        spelled(stop),
        spelled(head),
        spelled(user)
    );
    Format::parse("text", &file)
}
