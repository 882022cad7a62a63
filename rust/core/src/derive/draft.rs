//! A format file that is being made: its parts, and its text.

use std::fmt::Write;

use super::probe::{Probes, common_start, is_mark};
use crate::codec::Codec;
use crate::format::Format;
use crate::template::budget;

/// How many bytes of rendered text cost as much as a byte of a file that is loaded.
const LOADED_AS_BYTES: usize = 8;

/// The text before and after a field.
pub(super) type Row = (String, String);

/// Reasoning in the assistant's rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reasoning {
    pub(super) head: String,
    /// Between reasoning and content; of reasoning in a turn of its own, the end of that turn.
    pub(super) middle: String,
    /// Whether it has a turn of its own.
    pub(super) is_framed: bool,
    /// The messages in which reasoning is written, as the key `reasoning` says it.
    pub(super) written: &'static str,
}

impl Reasoning {
    /// The head of an answer with an empty block of reasoning.
    pub(super) fn without_thought(&self) -> String {
        format!("{}{}", self.head, self.middle)
    }
}

/// What stands around strings that hold some texts: CDATA.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wrap {
    pub(super) open: String,
    pub(super) close: String,
    pub(super) when: Vec<&'static str>,
}

/// How calls are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Calls {
    pub(super) open: String,
    pub(super) between: String,
    pub(super) close: String,
    pub(super) after_content: String,
    pub(super) item: String,
    /// Members of `{call}` and their keys, in order.
    pub(super) object: Vec<(&'static str, String)>,
    pub(super) pair: Option<String>,
    pub(super) quote: Option<char>,
    /// What stands around strings that hold some texts.
    pub(super) wrap: Option<Wrap>,
    pub(super) id: Option<&'static str>,
    /// The end of a message with calls.
    pub(super) end: String,
    /// Whether calls have a row of their own.
    pub(super) is_own_row: bool,
    /// The head of that row, if the head of answers differs, and whether content may stand after it.
    pub(super) row: Option<(String, bool)>,
    /// Markers of calls that are text: `{T0}` and so on.
    pub(super) texts: Vec<String>,
}

impl Calls {
    /// Calls that begin with text, with markers for that text and for the text at their end.
    pub(super) fn marked_by_text(&self) -> Option<Self> {
        let (head, rest) = self.item.split_at(self.item.find('{')?);
        let is_text =
            |text: &str| !text.is_empty() && !text.contains(is_mark) && text.trim() == text;
        if !is_text(head) || !self.open.is_empty() {
            return None;
        }
        let (body, tail) = rest.split_at(rest.rfind('}')? + 1);
        let mut texts = vec![head.to_owned()];
        let mut item = format!("{{T0}}{body}");
        match tail {
            tail if is_text(tail) => {
                item += "{T1}";
                texts.push(tail.to_owned());
            }
            tail => item += tail,
        }
        Some(Self { item, texts, is_own_row: false, ..self.clone() })
    }
}

/// How results are written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Results {
    pub(super) open: String,
    pub(super) between: String,
    pub(super) close: String,
    pub(super) row: String,
    /// Whether the answer after a result has no header.
    pub(super) is_answered_bare: bool,
}

/// The parts of a format file. Texts have marks for control tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) is_ids: bool,
    pub(super) is_alternate: bool,
    pub(super) is_always_prompted: bool,
    pub(super) begin: String,
    pub(super) prompt: String,
    /// The prompt as the template writes it.
    pub(super) whole_prompt: String,
    pub(super) stop: Vec<char>,
    pub(super) system: Option<Row>,
    pub(super) user: Row,
    /// What the template writes after a user's text, before an answer.
    pub(super) user_end: String,
    /// A token that stands for the head of answers, where that is text alone.
    pub(super) stand_in: String,
    pub(super) head: String,
    pub(super) end: String,
    pub(super) last_head: Option<String>,
    pub(super) reasoning: Option<Reasoning>,
    pub(super) calls: Option<Calls>,
    pub(super) results: Option<Results>,
}

fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

impl Draft {
    /// An answer, of what the template writes after a question.
    pub(super) fn answer_in(&self, written: &str) -> Option<String> {
        let answer = written.strip_prefix(self.user_end.as_str())?;
        Some(format!("{}{answer}", self.stand_in))
    }

    /// Reasoning that stands in the rows of answers.
    pub(super) fn reasoning_in_rows(&self) -> Option<&Reasoning> {
        self.reasoning.as_ref().filter(|reasoning| !reasoning.is_framed)
    }

    /// The rows of the assistant's messages, for the header of those without reasoning.
    fn rows(&self, head: &str) -> Vec<String> {
        let mut heads = Vec::new();
        if let Some(reasoning) = self.reasoning_in_rows() {
            heads.push(format!("{}{{reasoning}}{}", reasoning.head, reasoning.middle));
        }
        if !heads.iter().any(|known| known == head) {
            heads.push(head.to_owned());
        }
        let mut rows = Vec::new();
        for head in heads {
            match &self.calls {
                Some(calls @ Calls { row: Some((own, has_content)), end, .. }) => {
                    rows.push(format!("{head}{{content}}{}", self.end));
                    // Calls that begin with a control token may stand after content.
                    let is_beside = !calls.is_own_row && self.reasoning_in_rows().is_none();
                    let has_content = *has_content || is_beside;
                    let own_calls =
                        if has_content { "{content}{?calls:{calls}?}" } else { "{calls}" };
                    let shared = common_start(own, &self.head);
                    // Of a row with reasoning, what stands before the content alone goes.
                    if let Some(head) = head.strip_suffix(&self.head[shared..]) {
                        rows.push(format!("{head}{}{own_calls}{end}", &own[shared..]));
                    }
                }
                Some(calls) if calls.is_own_row => {
                    rows.push(format!("{head}{{content}}{}", self.end));
                    rows.push(format!("{head}{{calls}}{}", calls.end));
                }
                Some(calls) if calls.end != self.end => {
                    rows.push(format!("{head}{{content}}{}", self.end));
                    rows.push(format!("{head}{{content}}{{?calls:{{calls}}?}}{}", calls.end));
                }
                Some(_) => rows.push(format!("{head}{{content}}{{?calls:{{calls}}?}}{}", self.end)),
                None => rows.push(format!("{head}{{content}}{}", self.end)),
            }
        }
        rows
    }

    /// The format file.
    #[allow(clippy::too_many_lines, reason = "the keys of a file, in order")]
    pub(super) fn file(&self, probes: &Probes) -> String {
        let written = |text: &str| string(&Probes::pattern(text));
        let list = |rows: &[String]| match rows {
            [row] => written(row),
            rows => {
                format!("[{}]", rows.iter().map(|row| written(row)).collect::<Vec<_>>().join(", "))
            }
        };
        let mut file = String::from("name = \"template\"\n");
        let _ = writeln!(file, "guarantee = \"{}\"", if self.is_ids { "ids" } else { "text" });
        file += "source = \"a chat template\"\nvocabulary = \"the model's\"\n";
        if !self.begin.is_empty() {
            let _ = writeln!(file, "begin = {}", written(&self.begin));
        }
        if self.is_alternate {
            file += "order = \"alternate\"\n";
        }
        if self.system.as_ref().is_some_and(|(head, _)| !head.starts_with(is_mark)) {
            file += "place = { system = \"first\" }\n";
        }
        if let Some(reasoning) = &self.reasoning {
            let _ = writeln!(file, "reasoning = \"{}\"", reasoning.written);
        }
        if let Some(calls) = &self.calls {
            let keys = [
                ("open", &calls.open),
                ("between", &calls.between),
                ("close", &calls.close),
                ("after_content", &calls.after_content),
            ];
            let keys: Vec<String> = keys
                .iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(key, text)| format!("{key} = {}", written(text)))
                .collect();
            if !keys.is_empty() {
                let _ = writeln!(file, "calls = {{ {} }}", keys.join(", "));
            }
        }
        if let Some(results) = &self.results {
            let keys =
                [("open", &results.open), ("between", &results.between), ("close", &results.close)];
            let keys: Vec<String> = keys
                .iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(key, text)| format!("{key} = {}", written(text)))
                .collect();
            if !keys.is_empty() {
                let _ = writeln!(file, "results = {{ {} }}", keys.join(", "));
            }
        }
        let _ = writeln!(file, "\n[generation]\nprompt = {}", written(&self.prompt));
        if self.is_always_prompted {
            file += "when = \"always\"\n";
        }
        if !self.stop.is_empty() {
            let names = self.stop.iter().map(|mark| Probes::pattern(&mark.to_string()));
            let names =
                names.map(|name| name.trim_matches(['{', '}']).to_owned()).collect::<Vec<_>>();
            let _ = writeln!(file, "stop = \"{{{}}}\"", names.join("|"));
        }
        let mut rows = String::from("\n[turn]\n");
        if let Some((head, end)) = &self.system {
            let _ = writeln!(rows, "system = {}", written(&format!("{head}{{content}}{end}")));
        }
        let _ = writeln!(
            rows,
            "user = {}",
            written(&format!("{}{{content}}{}", self.user.0, self.user.1))
        );
        let _ = writeln!(rows, "assistant = {}", list(&self.rows(&self.head)));
        if let Some(results) = &self.results {
            let _ = writeln!(rows, "tool = {}", written(&results.row));
            if results.is_answered_bare {
                let calls = self.calls.as_ref().map_or("", |_| "{?calls:{calls}?}");
                let row = format!("{{content}}{calls}{}", self.end);
                let _ = writeln!(rows, "\n[after_tool]\nassistant = {}", written(&row));
            }
        }
        if let Some(Reasoning { head, middle, is_framed: true, .. }) = &self.reasoning {
            let frame = written(&format!("{head}{{reasoning}}{middle}"));
            let _ = writeln!(rows, "\n[frame]\nreasoning = {frame}");
        }
        if let Some(head) = &self.last_head {
            let _ = writeln!(rows, "\n[last]\nassistant = {}", list(&self.rows(head)));
        }
        if let Some(calls) = &self.calls {
            let _ = writeln!(rows, "\n[call.function]\nitem = {}", written(&calls.item));
            if !calls.object.is_empty() {
                let members: Vec<String> = calls
                    .object
                    .iter()
                    .map(|(member, key)| format!("{member} = {}", string(key)))
                    .collect();
                let _ = writeln!(rows, "object = {{ {} }}", members.join(", "));
            }
            if let Some(pair) = &calls.pair {
                let _ = writeln!(rows, "pair = {}", written(pair));
            }
            if let Some(quote) = calls.quote {
                let _ = writeln!(rows, "quote = {}", written(&quote.to_string()));
            }
            if let Some(Wrap { open, close, when }) = &calls.wrap {
                let when: Vec<String> = when.iter().map(|text| string(text)).collect();
                let (open, close, when) = (string(open), string(close), when.join(", "));
                let _ =
                    writeln!(rows, "wrap = {{ open = {open}, close = {close}, when = [{when}] }}");
            }
            if let Some(id) = calls.id {
                let _ = writeln!(rows, "id = {}", string(id));
            }
        }
        let texts = self.calls.iter().flat_map(|calls| &calls.texts).enumerate();
        for (index, text) in texts {
            let table = if index == 0 { "\n[text]\n" } else { "" };
            let _ = writeln!(rows, "{table}T{index} = {}", string(text));
        }
        // Control tokens that a pattern names.
        let mut control = String::from("\n[control]\n");
        for at in 0_u32.. {
            let Some(id) = char::from_u32(0xF_0000 + at).and_then(|mark| probes.id(mark)) else {
                break;
            };
            let is_used = [
                format!("{{C{at}}}"),
                format!("{{C{at}|"),
                format!("|C{at}|"),
                format!("|C{at}}}"),
            ];
            if is_used.iter().any(|name| file.contains(name) || rows.contains(name)) {
                let _ = writeln!(control, "C{at} = {}", string(probes.codec.vocab().spelling(id)));
            }
        }
        file + &control + &rows
    }

    /// The codec of the file; none if it breaks a rule of format files.
    pub(super) fn load(&self, probes: &Probes) -> Option<Codec> {
        if budget::is_spent() {
            return None;
        }
        let file = self.file(probes);
        budget::spend(file.len() * LOADED_AS_BYTES);
        let format = Format::parse("template", &file).ok()?;
        let codec = Codec::new(&format, probes.codec.vocab()).ok()?;
        if probes.answers_only { codec.reading_answers(None).ok() } else { Some(codec) }
    }
}
