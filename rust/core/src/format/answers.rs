//! The part of a built-in format that reads answers, and its calls alone, for the tokens of a vocabulary.
//!
//! A template whose turns no built-in format writes may still ask for calls that one of them reads. In: the keys of a
//! format, and a vocabulary. Out: a format file with the format's rows for answers, to which all before an answer is one
//! question; or the rows of another file with the format's calls.

use toml::{Table, Value};

use super::respelled::{Spelled, Tokens, names_at, strings};
use super::{BUILT_IN, Format, variant};

/// The keys that are kept; of `turn` and `last` the row of the assistant, of `generation` the prompts.
const KEPT: [&str; 15] = [
    "name",
    "guarantee",
    "source",
    "vocabulary",
    "order",
    "reasoning",
    "control",
    "tag",
    "generation",
    "calls",
    "call",
    "also",
    "frame",
    "turn",
    "last",
];

/// The name of the token that opens a question.
const QUESTION: &str = "QUESTION";

impl Format {
    /// The part of a built-in format that reads answers, for a vocabulary; none where that is no format, or where
    /// `written` has no beginning of its calls.
    pub(crate) fn for_answers(name: &str, written: &str, tokens: &Tokens) -> Option<Self> {
        let keys = keys_of(name)?;
        // Other spellings of calls may be none with these tokens.
        [true, false].into_iter().find_map(|with_others| {
            let file = answers(keys.clone(), with_others, written, tokens)?;
            Self::parse(name, &toml::to_string(&file).ok()?).ok()
        })
    }

    /// A format without calls with the calls of a built-in format, for a vocabulary; none where that is no format, or
    /// where `written` has no beginning of these calls.
    pub(crate) fn with_calls_of(
        &self,
        name: &str,
        part: Part,
        written: &str,
        tokens: &Tokens,
    ) -> Option<Self> {
        let keys = keys_of(name)?;
        let mut rows = variant::keys(self.text(), self.variant())?;
        if part == Part::Answers {
            keep_answers(&mut rows);
        }
        let ways = [(true, true), (true, false), (false, true), (false, false)];
        ways.into_iter().find_map(|(with_others, beside_text)| {
            let mut file = with_calls(rows.clone(), keys.clone(), with_others, written, tokens)?;
            add_calls(&mut file, beside_text);
            Self::parse(self.name(), &toml::to_string(&file).ok()?).ok()
        })
    }
}

/// What is kept of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Answers,
}

/// The keys of a built-in format.
fn keys_of(name: &str) -> Option<Table> {
    let (base, variant) = match name.split_once(':') {
        Some((base, variant)) => (base, Some(variant)),
        None => (name, None),
    };
    let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == base)?;
    variant::keys(text, variant)
}

/// The keys of a format file that reads answers.
fn answers(mut file: Table, with_others: bool, written: &str, tokens: &Tokens) -> Option<Table> {
    let mut spelled = Spelled::new(&file, &Table::new(), tokens)?;
    keep_answers(&mut file);
    if !with_others {
        file.remove("also");
    }
    spelled.write_all(&mut file);
    if !begins_calls(&file, &spelled, written) {
        return None;
    }
    spelled.add_tokens(&mut file);
    add_question(&mut file, tokens)?;
    Some(file)
}

/// Whether a text has the beginning of a file's calls; true if the file has no calls.
fn begins_calls(file: &Table, spelled: &Spelled<'_>, written: &str) -> bool {
    let inner = |key: &str, name: &str| file.get(key)?.as_table()?.get(name);
    let items = file.get("call").and_then(Value::as_table).into_iter().flatten();
    let items = items.filter_map(|(_, call)| call.get("item"));
    let mut firsts = inner("calls", "open").into_iter().chain(items);
    firsts.next().is_none_or(|first| {
        let ways = strings(first);
        ways.is_empty() || ways.iter().any(|way| written.contains(&spelled.opening(way)))
    })
}

/// Leaves out of a file what reads no answers.
fn keep_answers(file: &mut Table) {
    file.retain(|key, _| KEPT.contains(&key));
    for key in ["turn", "last"] {
        if let Some(rows) = file.get_mut(key).and_then(Value::as_table_mut) {
            rows.retain(|role, _| role == "assistant");
        }
    }
    if let Some(generation) = file.get_mut("generation").and_then(Value::as_table_mut) {
        generation.retain(|key, _| key != "when");
    }
}

/// Adds a row for the user to a file. A conversation before an answer is read as one question.
fn add_question(file: &mut Table, tokens: &Tokens) -> Option<()> {
    let control = file.get_mut("control")?.as_table_mut()?;
    let question = tokens.free(control)?.to_owned();
    control.insert(QUESTION.into(), question.into());
    let rows = file.get_mut("turn")?.as_table_mut()?;
    let end = rows.get("assistant").and_then(last_token)?;
    rows.insert("user".into(), format!("{{{QUESTION}}}{{content}}{{{end}}}").into());
    Some(())
}

/// The last control token of the first row of these.
fn last_token(rows: &Value) -> Option<String> {
    let row = strings(rows).into_iter().next()?;
    let holes = row.match_indices('{');
    let mut names = holes.filter_map(|(at, _)| Some(&row[at + 1..at + names_at(&row[at..])?]));
    names.next_back().and_then(|names| names.split('|').next()).map(str::to_owned)
}

/// The keys of a format file with the calls of another file.
fn with_calls(
    mut rows: Table,
    mut file: Table,
    with_others: bool,
    written: &str,
    tokens: &Tokens,
) -> Option<Table> {
    let mut spelled = Spelled::new(&file, rows.get("control")?.as_table()?, tokens)?;
    let is_kept =
        |key: &str| ["calls", "call", "tag"].contains(&key) || with_others && key == "also";
    file.retain(|key, _| is_kept(key));
    spelled.write_all(&mut file);
    if !file.contains_key("call") || !begins_calls(&file, &spelled, written) {
        return None;
    }
    rows.extend(file);
    spelled.add_tokens(&mut rows);
    if !rows.get("turn")?.as_table()?.contains_key("user") {
        add_question(&mut rows, tokens)?;
    }
    Some(rows)
}

/// Adds calls to the rows of answers: in the rows of texts, or in rows of their own.
fn add_calls(file: &mut Table, beside_text: bool) {
    for key in ["turn", "last", "after_tool"] {
        let Some(value) = file.get_mut(key).and_then(|rows| rows.get_mut("assistant")) else {
            continue;
        };
        let rows = strings(value).into_iter().flat_map(|row| {
            if beside_text {
                return vec![row.replace("{content}", "{content}{?calls:{calls}?}")];
            }
            let calls = row.replace("{content}", "{calls}");
            vec![row, calls]
        });
        *value = rows.collect::<Vec<_>>().into();
    }
}

#[cfg(test)]
mod tests {
    use chatcodec_vocab::Vocab;

    use super::*;
    use crate::codec::Codec;

    /// The embedded vocabulary with a spelling of each control token of a format, except for some.
    fn vocab_of(format: &Format, without: &[&str]) -> Vocab {
        let first = |(_, group): &(String, Vec<String>)| group.first().cloned();
        let all = format.control().iter().filter_map(first);
        let kept: Vec<String> = all.filter(|it| !without.contains(&it.as_str())).collect();
        let vocab = Vocab::embedded();
        let new = kept.into_iter().filter(|it| !vocab.control().contains_key(it));
        vocab.with_appended(&new.collect::<Vec<_>>()).unwrap()
    }

    fn answers(name: &str, without: &[&str]) -> Option<(Format, Vocab)> {
        let format = Format::built_in(name).unwrap();
        let vocab = vocab_of(&format, without);
        let tokens = Tokens::new(&vocab).unwrap();
        Some((Format::for_answers(name, format.text(), &tokens)?, vocab))
    }

    #[test]
    fn the_part_for_answers_reads_answers_of_most_formats() {
        let (mut all, mut read) = (0, 0);
        for name in Format::names() {
            let Some((format, vocab)) = answers(name, &[]) else { continue };
            let codec = Codec::new(&format, &vocab).unwrap();
            let mut ids = codec.vocab().encode("Hi, you.");
            ids.extend(codec.stop_ids().first());
            let message = codec.parse(&ids, None).message;
            all += 1;
            read += usize::from(
                message.content == "Hi, you." || message.reasoning.as_deref() == Some("Hi, you."),
            );
        }
        assert!(all > 80 && read == all, "{read} of {all}");
    }

    #[test]
    fn a_token_that_is_lacking_is_text() {
        let without = ["<tool_call>", "</tool_call>", "<|endoftext|>"];
        let (format, vocab) = answers("qwen3", &without).unwrap();
        let codec = Codec::new(&format, &vocab).unwrap();
        assert!(!vocab.control().contains_key("<tool_call>"));
        let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        let mut ids = codec.vocab().encode(call);
        ids.extend(codec.stop_ids().first());
        assert_eq!(codec.parse(&ids, None).message.calls.len(), 1);
    }

    #[test]
    fn white_space_of_a_tag_that_is_text_is_no_content() {
        let format = Format::built_in("deepseek:v4").unwrap();
        let vocab = vocab_of(&format, &["｜DSML｜"]);
        let tokens = Tokens::new(&vocab).unwrap();
        let format = Format::for_answers("deepseek:v4", "<｜DSML｜tool_calls>", &tokens).unwrap();
        let codec = Codec::new(&format, &vocab).unwrap();
        let call = "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n\
                    </｜DSML｜invoke>";
        for (lead, content, after) in [
            ("\n\n", "", "\n"),
            ("Hi\n\n", "Hi", "\n"),
            ("Hi", "Hi", ""),
            ("Hi\n\n\n", "Hi\n", "\n"),
        ] {
            let text = format!(
                "{lead}<｜DSML｜tool_calls>\n{call}{after}{call}{after}</｜DSML｜tool_calls>"
            );
            let mut ids = codec.vocab().encode(&text);
            ids.extend(codec.stop_ids().first());
            let message = codec.parse(&ids, None).message;
            assert_eq!((message.content.as_str(), message.calls.len()), (content, 2));
        }
        assert!(format.text().contains("{CALL_END}\n"), "{}", format.text());
    }

    #[test]
    fn text_that_is_a_token_is_the_token() {
        let format = Format::built_in("qwen2.5").unwrap();
        let vocab = vocab_of(&format, &[]).with_appended(&["assistant\n".into()]).unwrap();
        let tokens = Tokens::new(&vocab).unwrap();
        let format = Format::for_answers("qwen2.5", format.text(), &tokens).unwrap();
        assert!(format.control().iter().any(|(_, group)| group.contains(&"assistant\n".into())));
    }

    #[test]
    fn a_format_gets_the_calls_of_another() {
        let file = "name = \"mine\"\nguarantee = \"ids\"\nsource = \"s\"\nvocabulary = \"v\"\n\
                    generation = { prompt = \"{A}bot\" }\n\
                    [control]\nA = \"<|im_start|>\"\nB = \"<|im_end|>\"\n\
                    [turn]\nuser = \"{A}you {content}{B}\"\nassistant = \"{A}bot{content}{B}\"\n";
        let mine = Format::parse("mine", file).unwrap();
        let qwen = Format::built_in("qwen2.5").unwrap();
        let vocab = vocab_of(&qwen, &[]);
        let tokens = Tokens::new(&vocab).unwrap();
        let with = mine.with_calls_of("qwen2.5", Part::Whole, qwen.text(), &tokens).unwrap();
        let codec = Codec::new(&with, &vocab).unwrap();
        let call = |name: &str| codec.vocab().ids_of(&[vec![name.into()]])[0][0];
        let mut ids = vec![call("<tool_call>")];
        ids.extend(codec.vocab().encode("\n{\"name\": \"f\", \"arguments\": {}}\n"));
        ids.push(call("</tool_call>"));
        ids.extend(codec.stop_ids().first());
        assert_eq!(codec.parse(&ids, None).message.calls.len(), 1);
        assert!(mine.with_calls_of("qwen2.5", Part::Whole, "no call", &tokens).is_none());
    }
}
