//! Calls as Python writes them, `[f(a=1, b="x"), g()]`, or one of them without brackets.
//!
//! Read as they come: each call's name, then its arguments as the text of a JSON object. A text is taken
//! for calls late, and for none early: a name is told once its first keyword and `=`, or `)`, has come.
//! Up to there, what was read is held and can be had back. Memory: that, up to [`HEAD_LIMIT`], and what
//! [`PairScanner`] holds.

use super::pairs::{self, PairScanner};
use crate::json;
use crate::stream::HEAD_LIMIT;

/// What a stretch of text turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to tell yet.
    More,
    /// A call, and its name.
    Name(String),
    /// Some of its arguments, as JSON.
    Arguments(String),
    /// The last of its arguments, and whether they are whole and were understood.
    End(String, bool),
    /// This goes on with no call: nothing more is taken.
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Start,
    /// A name, or after a comma the end of the list.
    First,
    Name,
    /// After the bracket: a keyword, or the end of the call.
    Open,
    Keyword,
    /// After white space that follows a keyword.
    Equals,
    Arguments,
    /// After a call in a list.
    After,
    Done,
    Broken,
}

/// Reads calls up to their end.
#[derive(Debug, Clone)]
pub(crate) struct PythonicScanner {
    state: State,
    is_list: bool,
    has_calls: bool,
    /// What was read and not told.
    held: String,
    /// Where in it the name begins, and the arguments.
    name_at: usize,
    arguments_at: usize,
    pairs: PairScanner,
    /// What the first keyword says, until its `=` comes.
    said: String,
}

impl PythonicScanner {
    /// Of a list of calls.
    pub(crate) fn list() -> Self {
        Self::new(true)
    }

    /// Of one call without brackets.
    pub(crate) fn call() -> Self {
        Self::new(false)
    }

    fn new(is_list: bool) -> Self {
        Self {
            state: if is_list { State::Start } else { State::First },
            is_list,
            has_calls: false,
            held: String::new(),
            name_at: 0,
            arguments_at: 0,
            pairs: PairScanner::new(),
            said: String::new(),
        }
    }

    /// Whether the calls have ended: what comes now is none of theirs.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether text is within a string, and says in JSON what it says here.
    pub(crate) fn is_same(&self, text: &str) -> bool {
        self.state == State::Arguments && self.pairs.is_same(text)
    }

    /// What was read and belongs to no call.
    pub(crate) fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Nothing more comes: what is held of arguments. Of other things, [`Self::take_rest`] has it.
    pub(crate) fn finish(&mut self) -> String {
        match self.state {
            State::Arguments => std::mem::take(&mut self.said) + &self.pairs.finish(),
            _ => String::new(),
        }
    }

    /// Reads a stretch of text that is one thing: how many bytes it took, and what it is.
    pub(crate) fn step(&mut self, text: &str) -> (usize, Step) {
        if self.state == State::Arguments {
            return self.arguments(text);
        }
        for (at, c) in text.char_indices() {
            let next = match (&self.state, c) {
                (State::Done, _) => return (at, Step::More),
                (State::Keyword | State::Equals, '=') | (State::Open, ')') => {
                    return (at, self.call_begins());
                }
                (State::Start | State::First | State::Open | State::Equals | State::After, c)
                    if is_space(c) =>
                {
                    self.state.clone()
                }
                (State::Keyword, c) if is_space(c) => State::Equals,
                (State::Start, '[') | (State::After, ',') => State::First,
                (State::First, ']') if self.has_calls => State::Done,
                (State::After, ']') => State::Done,
                (State::First, c) if begins_name(c) => {
                    self.name_at = self.held.len();
                    State::Name
                }
                (State::Name, '(') if is_name(&self.held[self.name_at..]) => {
                    self.arguments_at = self.held.len() + 1;
                    State::Open
                }
                (State::Name, c) if is_of_name(c) => State::Name,
                (State::Open, c) if c.is_alphabetic() || c == '_' => State::Keyword,
                (State::Keyword, c) if c.is_alphanumeric() || c == '_' => State::Keyword,
                _ => State::Broken,
            };
            self.state = next;
            if self.state == State::Broken || self.held.len() >= HEAD_LIMIT {
                self.state = State::Broken;
                return (at, Step::Broken);
            }
            self.held.push(c);
            if self.is_done() {
                self.held.clear();
                return (at + c.len_utf8(), Step::More);
            }
        }
        (text.len(), Step::More)
    }

    /// What was held is a call: its name is told, its arguments are read.
    fn call_begins(&mut self) -> Step {
        let held = std::mem::take(&mut self.held);
        self.pairs = PairScanner::new();
        self.said = self.pairs.push(&held[self.arguments_at..]).1;
        self.has_calls = true;
        self.state = State::Arguments;
        Step::Name(held[self.name_at..self.arguments_at - 1].to_owned())
    }

    fn arguments(&mut self, text: &str) -> (usize, Step) {
        let (taken, said) = self.pairs.push(text);
        let said = std::mem::take(&mut self.said) + &said;
        if !self.pairs.is_done() {
            return (taken, if said.is_empty() { Step::More } else { Step::Arguments(said) });
        }
        self.state = if self.is_list { State::After } else { State::Done };
        (taken, Step::End(said, self.pairs.is_complete()))
    }
}

/// `[f(a=1, b="x"), g()]`, of names and arguments, which are one JSON object each.
pub(crate) fn write<'a>(
    calls: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<String, String> {
    let mut out = String::from("[");
    for (name, arguments) in calls {
        if out.len() > 1 {
            out.push_str(", ");
        }
        out.push_str(&write_call(name, arguments)?);
    }
    out.push(']');
    Ok(out)
}

/// `f(a=1, b="x")`
pub(crate) fn write_call(name: &str, arguments: &str) -> Result<String, String> {
    if !is_name(name) || name.len() > HEAD_LIMIT / 4 {
        return Err(format!("has the name {name:?}, expected one such as `f` or `math.sqrt`"));
    }
    Ok(format!("{name}({})", pairs::write(json::trim(arguments))?))
}

fn is_space(c: char) -> bool {
    u8::try_from(c).is_ok_and(json::is_space)
}

fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_of_name(c: char) -> bool {
    // Python's names have no hyphens, but those of tools do.
    begins_name(c) || c.is_ascii_digit() || matches!(c, '.' | '-')
}

/// Whether a text is names with dots between them.
fn is_name(text: &str) -> bool {
    text.split('.').all(|part| part.starts_with(begins_name) && part.chars().all(is_of_name))
}

#[cfg(test)]
mod tests {
    use super::pairs::respace;
    use super::*;
    use proptest::prelude::*;

    /// The calls as `name{arguments}`, `!` after those that are not complete, and what was given back.
    fn read(mut scanner: PythonicScanner, text: &str, chars: usize) -> (String, String) {
        let (mut out, mut rest) = (String::new(), String::new());
        let mut is_open = false;
        for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
            let chunk: String = chunk.iter().collect();
            let mut left = chunk.as_str();
            while !left.is_empty() {
                let is_same = scanner.is_same(left);
                let (taken, step) = scanner.step(left);
                assert!(!is_same || step == Step::Arguments(left.to_owned()));
                left = &left[taken..];
                match step {
                    Step::More if scanner.is_done() => {
                        rest.push_str(left);
                        break;
                    }
                    Step::More => {}
                    Step::Name(name) => {
                        assert!(!left.is_empty());
                        out.push_str(&name);
                        is_open = true;
                    }
                    Step::Arguments(json) => out.push_str(&json),
                    Step::End(json, is_complete) => {
                        out.push_str(&json);
                        out.push_str(if is_complete { ";" } else { "!;" });
                        is_open = false;
                    }
                    Step::Broken => {
                        rest.push_str(&scanner.take_rest());
                        rest.push_str(left);
                        break;
                    }
                }
            }
        }
        out.push_str(&scanner.finish());
        out.push_str(if is_open { "!" } else { "" });
        (out, rest + &scanner.take_rest())
    }

    fn check(scanner: fn() -> PythonicScanner, text: &str, calls: &str, rest: &str) {
        for chars in [1, 2, 3, usize::MAX] {
            let read = read(scanner(), text, chars);
            assert_eq!(read, (calls.to_owned(), rest.to_owned()), "{text}");
        }
    }

    #[test]
    fn calls_are_told() {
        for (text, calls, rest) in [
            ("[f()]", "f{};", ""),
            ("[f(a=1, b='x'), g.h( )] and", r#"f{"a": 1, "b": "x"};g.h{};"#, " and"),
            (" [\n  get-it(\n a = True, ), ] ", r#"get-it{"a": true};"#, " "),
            ("[f(a=[g(1)])]", r#"f{"a": [g(1)])]!"#, ""),
            ("[f(a=1", r#"f{"a": 1!"#, ""),
            ("[f(a=1)", r#"f{"a": 1};"#, ""),
            ("[f(a=1), ", r#"f{"a": 1};"#, ", "),
            ("[f(a=1) for f in fs]", r#"f{"a": 1};"#, " for f in fs]"),
            ("[f(a=1), g(2)]", r#"f{"a": 1};"#, ", g(2)]"),
            ("[f(a=1, 2)]", r#"f{"a": 12)]!"#, ""),
        ] {
            check(PythonicScanner::list, text, calls, rest);
        }
        check(
            PythonicScanner::call,
            "brave_search.call(query=\"x\") y",
            r#"brave_search.call{"query": "x"};"#,
            " y",
        );
    }

    #[test]
    fn what_is_no_call_is_given_back() {
        for text in [
            "",
            "[]",
            "[",
            "[1, 2]",
            "[hello]",
            "[f(x)]",
            "[f(x, a=1)]",
            "[f (a=1)]",
            "[.f(a=1)]",
            "[f.(a=1)]",
            "[1f(a=1)]",
            "[see (a)](b)",
            "[f(",
            "[f(a",
            "[f(a ",
            "f(a=1)",
            "[[f(a=1)]]",
            "[f('a=1')]",
            "[f(1=a)]",
            "[f(*a)]",
            "[\"f\"]",
            "[世(a=1)]",
        ] {
            check(PythonicScanner::list, text, "", text);
        }
        let mut scanner = PythonicScanner::list();
        assert_eq!(
            scanner.step(&format!("[{}", "f".repeat(HEAD_LIMIT))),
            (HEAD_LIMIT, Step::Broken)
        );
    }

    #[test]
    fn what_could_not_be_read_back_is_refused() {
        for (name, arguments) in
            [("", "{}"), ("f g", "{}"), ("f.", "{}"), ("f", "[]"), ("f", r#"{"a b": 1}"#)]
        {
            assert!(write([(name, arguments)]).is_err(), "{name} {arguments}");
        }
    }

    fn arguments() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            Just(serde_json::json!(null)),
            any::<i64>().prop_map(Into::into),
            "[\\PC\"'\\\\\n)\\]]{0,6}".prop_map(Into::into),
            prop::collection::vec("[a)'\\]]{0,3}", 0..3).prop_map(Into::into),
        ];
        prop::collection::vec(("[a-z]{1,3}_", value), 0..3).prop_map(|members| {
            serde_json::Value::Object(members.into_iter().collect()).to_string()
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            calls in prop::collection::vec(("[a-z_][a-z0-9_-]{0,3}(\\.[a-z]{1,2})?", arguments()), 1..4),
            chars in 1usize..7,
        ) {
            let written =
                write(calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str()))).unwrap();
            let told: Vec<_> =
                calls.iter().map(|(name, said)| [name, respace(said).as_str(), ";"].concat()).collect();
            let told = told.concat();
            prop_assert_eq!(
                read(PythonicScanner::list(), &format!("{written}x"), chars), (told, "x".to_owned()));
        }

        #[test]
        fn chunks_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec!["[", "f", "(", "a", "=", "1", "'", "\"", ")", ",", "]", " ", "\n", "\\", "é"]),
                0..24),
            chars in 1usize..7,
            is_list in any::<bool>(),
        ) {
            let text = parts.concat();
            let whole = read(PythonicScanner::new(is_list), &text, usize::MAX);
            prop_assert_eq!(&read(PythonicScanner::new(is_list), &text, chars), &whole);
            prop_assert!(!whole.0.is_empty() || whole.1 == text);
        }
    }
}
