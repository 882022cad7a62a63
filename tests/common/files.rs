//! Format files at random, whole: rows of every role, calls, results, reasoning, prompts and tools, of control tokens
//! or plain text.
//!
//! A file is made from a tape of numbers. Each number decides one thing, and the least is the simplest, so that
//! what fails shrinks to a simple file.

use std::fmt::{self, Write};

use proptest::prelude::*;

/// Numbers that decide, one after another; behind the last come zeros.
#[derive(Clone)]
pub struct Tape {
    choices: Vec<u16>,
    at: usize,
}

impl Tape {
    pub fn any(length: usize) -> impl Strategy<Value = Self> {
        prop::collection::vec(any::<u16>(), length).prop_map(|choices| Self { choices, at: 0 })
    }

    fn next(&mut self) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(choice)
    }

    pub fn below(&mut self, count: usize) -> usize {
        self.next() * count / (1 << 16)
    }

    /// True in so many of a hundred cases.
    pub fn may(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    pub fn one_of<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

/// A failure shows the file and the conversation, which say more than the numbers.
impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tape of {} numbers", self.choices.len())
    }
}

/// The control tokens that files name, in the order in which vocabularies have them.
pub const NAMES: &[&str] =
    &["B", "S", "U", "A", "R", "E", "Z", "T", "TE", "C", "CE", "L", "LE", "RE", "K", "KE", "X"];

pub fn spelling(name: &str) -> String {
    format!("<|{}|>", name.to_lowercase())
}

/// The spellings of all of them.
pub fn spellings() -> Vec<String> {
    NAMES.iter().map(|name| spelling(name)).collect()
}

/// White space between pieces.
const WHITE: &[&str] = &["", "\n", " ", "\n\n"];

/// What the rows of a file have in common.
struct Style {
    is_text: bool,
    /// Whether one token opens every turn, before the role's word.
    is_shared: bool,
    /// What follows the role's word where that begins every turn, and tokens tell turns apart.
    after_word: Option<&'static str>,
    after_opener: &'static str,
    before: &'static str,
    end: &'static str,
}

impl Style {
    fn new(tape: &mut Tape) -> Self {
        let is_text = tape.may(25);
        let is_shared = tape.may(40);
        let is_word = !is_text && tape.may(20);
        let after_word = is_word.then(|| tape.one_of(&["{B}", ":", ": ", " turn{B}", ""]));
        let after_opener = tape.one_of(&["\n", "", " ", "\n\n", ": "]);
        let end = tape.one_of(if is_text {
            &["{E}", "\n\n", "\n", "", " END", "{E}\n", " "]
        } else {
            &["{E}", "{E}\n", "", "\n", "{E}{~}", " {E}", "\n{E}\n", " END"]
        });
        let before = if tape.may(10) { tape.one_of(WHITE) } else { "" };
        Self { is_text, is_shared, after_word, after_opener, before, end }
    }

    fn opener(&self, tape: &mut Tape, role: &str) -> String {
        let initial = role[..1].to_uppercase();
        let initial = if role == "tool" { "R" } else { &initial };
        let after = if tape.may(10) { tape.one_of(WHITE) } else { self.after_opener };
        let before = if tape.may(6) { tape.one_of(WHITE) } else { self.before };
        let opener = if tape.may(5) {
            String::new()
        } else if self.is_text {
            if tape.may(15) { format!("{{B}}{role}") } else { format!("{initial}:") }
        } else if let Some(after) = self.after_word {
            format!("{role}{after}")
        } else if self.is_shared {
            format!("{{B}}{role}")
        } else {
            format!("{{{initial}}}")
        };
        format!("{before}{opener}{after}")
    }

    fn end(&self, tape: &mut Tape) -> String {
        if tape.may(12) {
            tape.one_of(&["{E}", "{Z}", "{E}\n", "", "\n", "{Z}\n", "{E|Z}", " END", "END{E}"])
                .to_owned()
        } else {
            self.end.to_owned()
        }
    }
}

/// A text field, mostly as it is.
fn text(tape: &mut Tape, field: &str) -> String {
    let filter = if tape.may(15) {
        tape.one_of(match field {
            "system" => &["", ":trim", ":trim_end"],
            "reasoning" => &["", ":trim", ":trim_lines"],
            _ => {
                &["", ":trim", ":trim_end", ":trim_lines", ":trim_end_spaces", ":value", ":string"]
            }
        })
    } else {
        ""
    };
    format!("{{{field}{filter}}}")
}

/// One line of a file: a key and a pattern, or several.
fn line(out: &mut String, key: &str, patterns: &[String]) {
    let quoted: Vec<String> = patterns.iter().map(|text| quote(text)).collect();
    let value = match &quoted[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let _ = writeln!(out, "{key} = {value}");
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

/// Sometimes something in a pattern that is not meant to be there, or not what is.
fn disturbed(tape: &mut Tape, pattern: String) -> String {
    const PIECES: &[&str] = &[
        "\n",
        " ",
        "x",
        "{X}",
        "{E}",
        "{~}",
        "{/}",
        "{T}",
        "{B}",
        "{?name: name={name}?}",
        ":",
        "{U}",
        "{Z}",
    ];
    if !tape.may(3) {
        return pattern;
    }
    let piece = tape.one_of(PIECES);
    let mut places: Vec<usize> = vec![0, pattern.len()];
    places.extend(pattern.match_indices('{').map(|(at, _)| at));
    places.extend(pattern.match_indices('}').map(|(at, _)| at + 1));
    let at = places[tape.below(places.len())];
    let mut out = pattern;
    if tape.may(30) {
        let end =
            (at + 1..=out.len()).find(|end| out[at..*end].ends_with(['}', '\n'])).unwrap_or(at);
        out.replace_range(at..end, "");
    } else {
        out.insert_str(at, piece);
    }
    out
}

/// A format file. It may be refused.
pub fn file(tape: &mut Tape) -> String {
    let mut draft = Draft::new(tape);
    draft.system();
    let user = draft.user();
    let answer = draft.assistant();
    draft.prompts(&answer);
    if draft.tape.may(55) {
        let Draft { tape, style, turn, top, rest, .. } = &mut draft;
        results(tape, style, &user, turn, top, rest);
    }
    if draft.tape.may(6) {
        line(&mut draft.rest, "[after_tool]\nassistant", &[answer.text]);
    }
    if draft.has_calls {
        call(draft.tape, &mut draft.top, &mut draft.rest);
    }
    draft.whole()
}

/// A file as it is written, table by table.
struct Draft<'t> {
    tape: &'t mut Tape,
    style: Style,
    has_calls: bool,
    has_reasoning: bool,
    /// Where the system message stands.
    system_place: &'static str,
    top: String,
    place: String,
    generation: String,
    turn: String,
    rest: String,
}

/// What an assistant's rows have in common, and how a prompt may begin them.
struct Answer {
    opener: String,
    /// What follows the opener, without reasoning.
    text: String,
    prompts: Vec<String>,
}

impl<'t> Draft<'t> {
    fn new(tape: &'t mut Tape) -> Self {
        let style = Style::new(tape);
        let mut top = String::from("name = \"random\"\nsource = \"the tests\"\n");
        line(&mut top, "guarantee", &[if style.is_text { "text" } else { "ids" }.to_owned()]);
        if tape.may(40) {
            line(&mut top, "begin", &[tape.one_of(&["{X}", "{X}\n", "\n"]).to_owned()]);
        }
        if tape.may(15) {
            line(&mut top, "end", &[tape.one_of(&["{Z}", "{X}", "\n", "{Z}\n"]).to_owned()]);
        }
        if tape.may(if style.is_text { 50 } else { 15 }) {
            line(&mut top, "order", &["alternate".to_owned()]);
        }
        let has_calls = tape.may(45);
        let has_reasoning = tape.may(30);
        let places = ["first", "first_user", "last_user"];
        let system_place = if tape.may(35) { places[tape.below(3)] } else { "own" };
        let place = match system_place {
            "own" => String::new(),
            place => format!("system = \"{place}\""),
        };
        let (generation, turn, rest) = (String::new(), String::new(), String::new());
        Self {
            tape,
            style,
            has_calls,
            has_reasoning,
            system_place,
            top,
            place,
            generation,
            turn,
            rest,
        }
    }

    fn row(&mut self, role: &str) -> String {
        let opener = self.style.opener(self.tape, role);
        let content = text(self.tape, "content");
        let end = self.style.end(self.tape);
        disturbed(self.tape, format!("{opener}{content}{end}"))
    }

    fn is_in_user(&self) -> bool {
        self.system_place.ends_with("_user")
    }

    /// The system message, and the tools.
    fn system(&mut self) {
        if self.is_in_user() || !self.tape.may(85) {
            return;
        }
        let system = if self.system_place == "first" && self.tape.may(40) {
            let end = self.style.end(self.tape);
            let content = text(self.tape, "content");
            disturbed(self.tape, format!("{content}{end}"))
        } else {
            self.row("system")
        };
        match self.tape.below(20) {
            14..17 => {
                let default = self.tape.one_of(&["D", "", " D", "D\n"]).to_owned();
                line(&mut self.top, "default_system", &[default]);
            }
            17.. => without_system(self.tape, &system, &mut self.turn),
            _ => {}
        }
        if self.tape.may(40) {
            tools(self.tape, &system, &mut self.turn, &mut self.place, &mut self.top);
        }
        line(&mut self.turn, "system", &[system]);
    }

    fn user(&mut self) -> String {
        let mut user = self.row("user");
        if self.tape.may(15) {
            user = user.replacen("user", "user{?name: name={name}?}", 1);
        }
        if self.is_in_user() {
            let between = self.tape.one_of(&["\n\n", "\n", "", "|"]);
            if self.tape.may(50) {
                self.top.push_str("losses = [\"system\"]\n");
            }
            let system = format!("{{?system:{{system}}{between}?}}{{content");
            user = user.replacen("{content", &system, 1);
        }
        line(&mut self.turn, "user", std::slice::from_ref(&user));
        user
    }

    fn assistant(&mut self) -> Answer {
        let opener = self.style.opener(self.tape, "assistant");
        let content = text(self.tape, "content");
        let end = self.style.end(self.tape);
        let calls = if self.has_calls { "{?calls:{calls}?}" } else { "" };
        let text = format!("{content}{calls}{end}");
        let plain = disturbed(self.tape, format!("{opener}{text}"));
        let mut answer = Answer { prompts: vec![opener.clone()], opener, text };
        let rows = if self.has_reasoning {
            self.reasoning(&mut answer, plain)
        } else if self.has_calls && self.tape.may(20) {
            let calls = format!("{}{{calls}}{end}", answer.opener);
            vec![format!("{}{content}{end}", answer.opener), disturbed(self.tape, calls)]
        } else {
            let second = self.tape.may(8).then(|| {
                let end = self.style.end(self.tape);
                format!("{}{content}{end}", answer.opener)
            });
            [plain].into_iter().chain(second).collect()
        };
        line(&mut self.turn, "assistant", &rows);
        answer
    }

    /// Rows with reasoning, and how prompts may begin them.
    fn reasoning(&mut self, answer: &mut Answer, plain: String) -> Vec<String> {
        let tape = &mut *self.tape;
        let Answer { opener, text: rest, prompts } = answer;
        let [before, after, then] = [0; 3].map(|_| tape.one_of(WHITE));
        let reasoning = text(tape, "reasoning");
        let block = disturbed(tape, format!("{{T}}{before}{reasoning}{after}{{TE}}{then}"));
        let is_guarded = tape.may(30);
        let block = if is_guarded { format!("{{?reasoning:{block}?}}") } else { block };
        let mut rows = vec![format!("{opener}{block}{rest}")];
        let empty = format!("{opener}{{T}}{before}{after}{{TE}}{then}");
        if !is_guarded {
            rows.push(match tape.below(4) {
                1 => format!("{empty}{rest}"),
                2 => format!("{opener}{{TE}}{then}{rest}"),
                _ => plain,
            });
        }
        prompts.push(format!("{opener}{{T}}"));
        prompts.push(format!("{opener}{{T}}{before}"));
        prompts.push(format!("{opener}{{T}}{before}{after}"));
        prompts.push(format!("{opener}{{TE}}{then}"));
        if tape.may(30) {
            let last = format!("{empty}{rest}");
            line(&mut self.rest, "[last]\nassistant", &[rows[0].clone(), last]);
        }
        prompts.push(empty);
        if tape.may(40) {
            let when = tape.one_of(&[
                "since_last_user",
                "since_last_answer",
                "last",
                "until_answered",
                "none",
            ]);
            line(&mut self.top, "reasoning", &[when.to_owned()]);
        }
        rows
    }

    fn prompts(&mut self, answer: &Answer) {
        let tape = &mut *self.tape;
        let mut prompts = answer.prompts.clone();
        let shorter = answer.opener.trim_end().to_owned();
        prompts.push(if tape.may(50) { shorter } else { String::new() });
        let at = if tape.may(60) { 0 } else { tape.below(prompts.len()) };
        let prompt = disturbed(tape, prompts[at].clone());
        line(&mut self.generation, "prompt", &[prompt]);
        if self.has_reasoning && tape.may(30) {
            let key = tape.one_of(&["thinking", "no_thinking"]);
            line(&mut self.generation, key, &[prompts[tape.below(prompts.len())].clone()]);
        }
        if tape.may(10) {
            let stop = tape.one_of(&["{X}", "{Z}", "{U}", "{B}"]).to_owned();
            line(&mut self.generation, "stop", &[stop]);
        }
        if tape.may(8) {
            line(&mut self.generation, "when", &["always".to_owned()]);
        }
    }

    /// The file, with the control tokens that it names.
    fn whole(self) -> String {
        let Self { mut top, place, generation, turn, rest, .. } = self;
        if !place.is_empty() {
            let _ = writeln!(top, "place = {{ {place} }}");
        }
        let body = format!("[generation]\n{generation}[turn]\n{turn}{rest}");
        let patterns = format!("{top}{body}");
        let mut control = String::from("[control]\n");
        for name in NAMES {
            let ways = [("{", "}"), ("{", "|"), ("|", "}"), ("|", "|")];
            if ways.iter().any(|(a, b)| patterns.contains(&format!("{a}{name}{b}"))) {
                line(&mut control, name, &[spelling(name)]);
            }
        }
        format!("{top}{control}{body}")
    }
}

/// The turn of a conversation without a system message.
fn without_system(tape: &mut Tape, system: &str, turn: &mut String) {
    let texts =
        ["D", "D {T}{TE}", "{X}D", "D{?date: on {date}?}.", " D\n", "", "{?date:{date}?}", "D {E}"];
    let count = if tape.may(20) { 2 } else { 1 };
    let patterns: Vec<String> =
        (0..count).map(|_| system.replacen("{content}", tape.one_of(&texts), 1)).collect();
    let patterns: Vec<String> =
        patterns.into_iter().map(|pattern| disturbed(tape, pattern)).collect();
    line(turn, "without_system", &patterns);
}

/// The turn that declares tools: the system message's, or one that a row reads.
fn tools(tape: &mut Tape, system: &str, turn: &mut String, place: &mut String, top: &mut String) {
    let before = tape.one_of(&["Tools: ", "", "\n", "# "]);
    let after = tape.one_of(&["", ".", "\n"]);
    let holds = tape.may(50);
    let tools = format!("{before}{{tools}}{after}");
    let held = tape.one_of(&["{system}\n", "{?system:{system}\n\n?}", "{system}"]);
    let (patterns, at) = if holds {
        let mut patterns = vec![system.replacen("{content}", &format!("{held}{tools}"), 1)];
        if tape.may(25) {
            patterns.push(system.replacen("{content}", &tools, 1));
        }
        (patterns, "system")
    } else {
        let at = tape.one_of(&["first", "after_system", "first_user", "last_user"]);
        (vec![system.replacen("{content}", &tools, 1)], at)
    };
    line(turn, "tools", &patterns);
    if !place.is_empty() {
        place.push_str(", ");
    }
    let _ = write!(place, "tools = \"{at}\"");
    if tape.may(30) {
        let _ = writeln!(top, "tools = {{ between = \"\\n\" }}");
    }
}

fn results(
    tape: &mut Tape,
    style: &Style,
    user: &str,
    turn: &mut String,
    top: &mut String,
    rest: &mut String,
) {
    let is_framed = tape.may(40);
    let word = tape.one_of(&["", "{?name: {name}?}", " {name}", "{id}", " {id}"]);
    let opener = if is_framed { "{R}".to_owned() } else { style.opener(tape, "tool") };
    let content = text(tape, "content");
    let end = if is_framed {
        tape.one_of(&["{RE}", "\n{RE}", "{RE}\n", ""]).to_owned()
    } else {
        style.end(tape)
    };
    let separator = if word.is_empty() { "" } else { "\n" };
    let pattern = disturbed(tape, format!("{opener}{word}{separator}{content}{end}"));
    let mut patterns = vec![pattern];
    if tape.may(10) {
        patterns.push(format!("{opener}{content}{end}"));
    }
    if !is_framed {
        return line(turn, "tool", &patterns);
    }
    let open = match tape.below(4) {
        0 => user.split("{content").next().unwrap_or_default().to_owned(),
        1 => style.opener(tape, "user"),
        2 => style.opener(tape, "tool"),
        _ => tape.one_of(&["{L}", "{L}\n", "\n{L}", ""]).to_owned(),
    };
    let close = tape.one_of(&["{E}", "{E}\n", "", "{LE}", "\n{E}", "\n"]);
    let between = tape.one_of(&["", "\n", "{X}"]);
    let _ = writeln!(
        top,
        "results = {{ open = {}, between = {}, close = {} }}",
        quote(&open),
        quote(between),
        quote(close)
    );
    if tape.may(30) && !top.contains("losses") {
        let _ = writeln!(top, "losses = [\"results\"]");
        let item =
            tape.one_of(&["<r>{content}</r>", "{content}", "<r>\n{content}\n</r>", "{content}\n"]);
        return line(turn, "tool", &[item.to_owned()]);
    }
    line(turn, "tool", &patterns);
    if tape.may(6) {
        let _ = writeln!(rest, "[named.f]");
        line(rest, "tool", &[format!("{opener}f\n{content}{end}")]);
    }
}

fn call(tape: &mut Tape, top: &mut String, rest: &mut String) {
    let (space, end) =
        (tape.one_of(&["", "\n", " "]), tape.one_of(&["{CE}", "\n{CE}", "{CE}{~}", "", "{CE}\n"]));
    let kind = tape.below(6);
    if kind != 4 && tape.may(35) {
        let (open, between, close) = (
            tape.one_of(&["", "{L}", "{L}\n"]),
            tape.one_of(&["", "\n", "{X}"]),
            tape.one_of(&["", "{LE}", "\n{LE}", "{LE}\n"]),
        );
        let after = tape.one_of(&["", "\n", "\n\n"]);
        let _ = writeln!(
            top,
            "calls = {{ open = {}, between = {}, close = {}, after_content = {} }}",
            quote(open),
            quote(between),
            quote(close),
            quote(after)
        );
    }
    let _ = writeln!(rest, "[call.function]");
    match kind {
        0 => {
            line(rest, "item", &[disturbed(tape, format!("{{C}}{space}{{call}}{end}"))]);
            let keys = ["name = \"name\", arguments = \"arguments\"", "arguments = \"{name}\""];
            let _ = writeln!(rest, "object = {{ {} }}", tape.one_of(&keys));
        }
        1 => {
            let between = tape.one_of(&["\n", "{K}", " ", "{X}"]);
            line(
                rest,
                "item",
                &[disturbed(tape, format!("{{C}}{space}{{name}}{between}{{arguments}}{end}"))],
            );
        }
        2 => {
            let between = tape.one_of(&["\n", "\n{~}", ""]);
            line(
                rest,
                "item",
                &[disturbed(tape, format!("{{C}}{{name}}{between}{{arguments}}{end}"))],
            );
            let pair = tape.one_of(&[
                "{K}{key}{KE}{value}{X}",
                "<p={key}>\n{value}\n</p>\n",
                "{K}{key}\n{value}{KE}",
            ]);
            line(rest, "pair", &[pair.to_owned()]);
        }
        3 => {
            line(rest, "item", &[disturbed(tape, format!("{{C}}{space}{{call}}{end}"))]);
            let _ = writeln!(rest, "object = {{ name = \"name\", arguments = \"arguments\" }}");
            let _ = writeln!(rest, "[call.code]");
            let item =
                tape.one_of(&["{K}{source}{KE}", "{K}{language}\n{source}\n{KE}", "{K}\n{source}"]);
            line(rest, "item", &[item.to_owned()]);
        }
        4 => {
            let _ = writeln!(
                top,
                "calls = {{ open = {}, between = {}, close = {} }}",
                quote(tape.one_of(&["{L}", "{L}\n", "["])),
                quote(tape.one_of(&["\n", "", " ", ", "])),
                quote(tape.one_of(&["{LE}", "\n{LE}", "]"]))
            );
            line(rest, "item", &[disturbed(tape, "{name}({arguments})".to_owned())]);
            line(rest, "pair", &[tape.one_of(&["python", "json"]).to_owned()]);
        }
        _ => {
            line(rest, "item", &["{call}".to_owned()]);
            let keys = ["name = \"name\", arguments = \"parameters\"", "arguments = \"{name}\""];
            let _ = writeln!(rest, "object = {{ {} }}", tape.one_of(&keys));
        }
    }
}
