//! The patterns of a file, read with the control tokens that it defines.

use std::cell::RefCell;
use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use hashbrown::HashMap;

use chatcodec_vocab::SPACE_MARK;

use super::file::OneOrMany;
use super::load::MAX_SPELLING_BYTES;
use super::tags::TagSpec;
use super::text_markers;
use super::work::Work;
use crate::error::{Checked, wrong};
use crate::limits::MAX_SUFFIX_BYTES;
use crate::pattern::{self, Field, Filter, Piece, is_white, walk};

const MAX_CONTROL: usize = 256;
const MAX_SPELLINGS: usize = 64;

/// Steps for each byte of a spelling, which all patterns are searched for.
const SPELLING_STEPS: usize = 4;

/// Reads patterns and keeps account of the control tokens that they use.
pub(super) struct Patterns {
    pub(super) control: Vec<(String, Vec<String>)>,
    /// The number of tokens in `control` that the table `[control]` has; markers of `[text]` follow.
    own: usize,
    /// The tags, which follow the control tokens in `by_name` and `used`.
    pub(super) tags: Vec<(String, Vec<TagSpec>)>,
    by_name: HashMap<String, usize>,
    /// Finds their spellings, in the order of `spelled`.
    finder: AhoCorasick,
    /// The control token of each spelling, and the index of the spelling.
    spelled: Vec<(usize, usize)>,
    used: RefCell<Vec<bool>>,
    /// Tags that begin with a token which closes turns.
    after_turns: RefCell<Vec<TagSpec>>,
    /// What turns, results and prompts begin with, with the key of each.
    heads: RefCell<Vec<(String, Option<Piece>)>>,
    /// The first literal text that holds U+2581.
    pub(super) space_mark: RefCell<Option<String>>,
}

impl Patterns {
    pub(super) fn new(
        file: &BTreeMap<String, OneOrMany>,
        text: &BTreeMap<String, OneOrMany>,
        tags: Vec<(String, Vec<TagSpec>)>,
        work: &Work,
    ) -> Checked<Self> {
        for (key, table) in [("control", file), ("text", text)] {
            let count = table.len();
            if count > MAX_CONTROL {
                return wrong(key, format!("has {count} tokens, expected at most {MAX_CONTROL}"));
            }
        }
        if let Some(name) = text.keys().find(|name| file.contains_key(*name)) {
            let problem = format!("has the name of `control.{name}`, expected one of its own");
            return wrong(format!("text.{name}"), problem);
        }
        let control: Vec<(String, Vec<String>)> = file
            .iter()
            .chain(text)
            .map(|(name, spellings)| (name.clone(), spellings.clone().into_vec()))
            .collect();
        let own = file.len();
        let mut taken: HashMap<String, String> = HashMap::new();
        for (nth, (name, spellings)) in control.iter().enumerate() {
            let key = || key_of(name, nth < own);
            if !pattern::is_control_name(name) {
                return wrong(key(), "is not a name, expected upper-case letters, digits and `_`");
            }
            let count = spellings.len();
            if count == 0 || spellings.iter().any(String::is_empty) {
                return wrong(key(), "has no spelling, expected one or more");
            }
            let is_long = |spelling: &String| spelling.len() > MAX_SPELLING_BYTES;
            if count > MAX_SPELLINGS || spellings.iter().any(is_long) {
                let problem = format!(
                    "has {count} spellings, expected at most {MAX_SPELLINGS} of at most \
                     {MAX_SPELLING_BYTES} bytes"
                );
                return wrong(key(), problem);
            }
            for spelling in spellings {
                work.count(&key(), spelling.len() * SPELLING_STEPS)?;
                let other = taken.insert(spelling.clone(), name.clone());
                if let Some(other) = other.filter(|other| other != name) {
                    let other = key_of(&other, file.contains_key(&other));
                    let problem = format!(
                        "has the spelling {spelling:?} of `{other}`, expected one of its own"
                    );
                    return wrong(key(), problem);
                }
            }
        }
        let spelled: Vec<(usize, usize)> = control
            .iter()
            .enumerate()
            .flat_map(|(at, (_, spellings))| (0..spellings.len()).map(move |nth| (at, nth)))
            .collect();
        let finder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(control.iter().flat_map(|(_, spellings)| spellings))
            .or_else(|e| wrong("control", format!("has spellings that are too much: {e}")))?;
        let names = control.iter().map(|(name, _)| name).chain(tags.iter().map(|(name, _)| name));
        let by_name: HashMap<String, usize> =
            names.enumerate().map(|(at, name)| (name.clone(), at)).collect();
        let is_taken = |name: &String| file.contains_key(name) || text.contains_key(name);
        if let Some((name, _)) = tags.iter().find(|(name, _)| is_taken(name)) {
            let other = key_of(name, file.contains_key(name));
            let problem = format!("has the name of `{other}`, expected one of its own");
            return wrong(format!("tag.{name}"), problem);
        }
        let used = vec![false; control.len() + tags.len()].into();
        let space_mark = RefCell::default();
        text_markers::check_texts(&control[own..])?;
        let (after_turns, heads) = (RefCell::default(), RefCell::default());
        let patterns = Self {
            control,
            own,
            tags,
            by_name,
            finder,
            spelled,
            used,
            after_turns,
            heads,
            space_mark,
        };
        patterns.check_tags()?;
        Ok(patterns)
    }

    /// The control tokens that a vocabulary must have, or the optional ones; `needed` has a mark for each token.
    pub(super) fn of_use(&self, needed: &[bool], is_needed: bool) -> Vec<(String, Vec<String>)> {
        let control = self.control[..self.own].iter().zip(needed);
        let control = control.filter(|(_, needed)| **needed == is_needed);
        control.map(|(group, _)| group.clone()).collect()
    }

    /// The markers that are ordinary text.
    pub(super) fn text(&self) -> &[(String, Vec<String>)] {
        &self.control[self.own..]
    }

    /// Whether a piece is a marker that is ordinary text.
    pub(super) fn is_text(&self, piece: &Piece) -> bool {
        let Piece::Control(names) = piece else { return false };
        names.iter().any(|name| self.is_text_name(name))
    }

    fn is_text_name(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|at| (self.own..self.control.len()).contains(at))
    }

    /// The tokens of tags are defined, and their text spells none.
    fn check_tags(&self) -> Checked<()> {
        for (name, ways) in &self.tags {
            let key = format!("tag.{name}");
            for way in ways {
                for text in [&way.before, &way.after] {
                    self.refuse_spelling(&key, text)?;
                    if text.contains(SPACE_MARK) {
                        self.space_mark.borrow_mut().get_or_insert_with(|| text.clone());
                    }
                }
                let is_own =
                    |name: &String| self.by_name.get(name).is_some_and(|&at| at < self.own);
                if let Some(other) = way.tokens().find(|name| !is_own(name)) {
                    let known: Vec<&str> =
                        self.control[..self.own].iter().map(|(name, _)| &**name).collect();
                    let problem = format!(
                        "has `{{{other}}}`, which `control` does not define; expected one of `{}`",
                        known.join("`, `")
                    );
                    return wrong(key, problem);
                }
            }
        }
        Ok(())
    }

    /// The ways to write tags that begin with a token.
    fn tags_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a TagSpec> {
        self.tags.iter().flat_map(|(_, ways)| ways).filter(move |way| way.token == name)
    }

    /// Checks the tokens of a pattern with which tags begin: nothing that is written reads as one of these tags.
    fn check_alone(&self, key: &str, pieces: &[Piece]) -> Checked<()> {
        if key == "turn.tools" {
            return Ok(());
        }
        let refused = |name: &str| {
            let problem = format!(
                "has `{{{name}}}`, with which tags begin, expected a tag, or the token in `turn.tools`"
            );
            wrong(key, problem)
        };
        for piece in walk(pieces) {
            let Piece::Control(names) = piece else { continue };
            let at = pieces.iter().position(|other| std::ptr::eq(other, piece));
            for (name, way) in names.iter().flat_map(|n| self.tags_of(n).map(move |way| (n, way))) {
                match at {
                    Some(at)
                        if begins_as_turns_do(key) && way.may_follow_turns(&pieces[at + 1..]) =>
                    {
                        self.after_turns.borrow_mut().push(way.clone());
                    }
                    _ => return refused(name),
                }
            }
        }
        Ok(())
    }

    /// Checks that no turn begins as a tag goes on whose token closes turns.
    pub(super) fn check_after_turns(&self) -> Checked<()> {
        for way in &*self.after_turns.borrow() {
            let heads = self.heads.borrow();
            if let Some((key, _)) = heads.iter().find(|(_, head)| way.may_go_on(head.as_ref())) {
                let problem = format!(
                    "may begin with {:?}, with which a tag goes on after `{{{}}}`; expected other text, or a control token",
                    way.after, way.token
                );
                return wrong(key, problem);
            }
        }
        Ok(())
    }

    /// The last token of a tag as it is written; none for another name.
    pub(super) fn end_of_tag(&self, name: &str) -> Option<&String> {
        let (_, ways) = self.tags.iter().find(|(known, _)| known == name)?;
        ways.first()?.tokens().last()
    }

    /// The first spelling of the first of some control tokens, or of a tag as it is written.
    pub(super) fn spelling(&self, names: &[String]) -> String {
        let of_token = |name: &String| -> String {
            let token = self.by_name.get(name).and_then(|&at| self.control.get(at));
            token.and_then(|(_, spellings)| spellings.first()).cloned().unwrap_or_default()
        };
        let Some(name) = names.first() else { return String::new() };
        let tag = self.tags.iter().find(|(known, _)| known == name);
        let Some(way) = tag.and_then(|(_, ways)| ways.first()) else { return of_token(name) };
        let next: String = way.next.iter().map(of_token).collect();
        format!("{}{}{}{next}", way.before, of_token(&way.token), way.after)
    }

    pub(super) fn pieces(&self, key: &str, text: &str, allowed: &[Field]) -> Checked<Vec<Piece>> {
        let pieces = self.row(key, text, allowed)?;
        if walk(&pieces).any(|piece| *piece == Piece::Rest) {
            return wrong(key, "has `{*}`, expected it in rows of `turn` and `named` only");
        }
        Ok(pieces)
    }

    /// The pieces of what may be a row that is only read.
    pub(super) fn row(&self, key: &str, text: &str, allowed: &[Field]) -> Checked<Vec<Piece>> {
        let pieces = pattern::parse(text).or_else(|problem| wrong(key, problem))?;
        if begins_as_turns_do(key) {
            self.heads.borrow_mut().push((key.to_owned(), pieces.first().cloned()));
        }
        for piece in walk(&pieces) {
            match piece {
                Piece::Control(names) => {
                    for name in names {
                        self.use_control(key, name)?;
                    }
                    self.check_text(key, names)?;
                }
                Piece::Literal(text) if is_white(text) && text.len() > MAX_SUFFIX_BYTES => {
                    let count = text.len();
                    let problem = format!(
                        "has {count} bytes of white space, expected at most {MAX_SUFFIX_BYTES}"
                    );
                    return wrong(key, problem);
                }
                Piece::Literal(text) => {
                    self.refuse_spelling(key, text)?;
                    if text.contains(SPACE_MARK) {
                        self.space_mark.borrow_mut().get_or_insert_with(|| text.clone());
                    }
                }
                Piece::Field(field, _) | Piece::Optional { field, .. }
                    if !allowed.contains(field) =>
                {
                    let names: Vec<&str> = allowed.iter().map(|field| field.name()).collect();
                    let problem = match &names[..] {
                        [] => format!("has `{{{}}}`, expected no field", field.name()),
                        names => {
                            let names = names.join("}`, `{");
                            format!("has `{{{}}}`, expected only `{{{names}}}`", field.name())
                        }
                    };
                    return wrong(key, problem);
                }
                Piece::Field(field, filter) if *filter != Filter::None => {
                    check_filter(key, *field, *filter)?;
                }
                _ => {}
            }
        }
        self.check_alone(key, &pieces)?;
        Ok(pieces)
    }

    fn use_control(&self, key: &str, name: &str) -> Checked<()> {
        let Some(&at) = self.by_name.get(name) else {
            let tags = self.tags.iter().map(|(name, _)| &**name);
            let known: Vec<&str> =
                self.control.iter().map(|(name, _)| &**name).chain(tags).collect();
            let problem = format!(
                "has `{{{name}}}`, which `control` does not define; expected one of `{}`",
                known.join("`, `")
            );
            return wrong(key, problem);
        };
        let is_tag = at >= self.control.len();
        if is_tag && !may_have_tags(key) {
            let problem =
                format!("has the tag `{{{name}}}`, expected tags in turns, prompts and calls only");
            return wrong(key, problem);
        }
        let mut used = self.used.borrow_mut();
        used[at] = true;
        if is_tag {
            for way in &self.tags[at - self.control.len()].1 {
                for token in way.tokens() {
                    used[self.by_name[token]] = true;
                }
            }
        }
        Ok(())
    }

    /// Checks that a marker of text is in the assistant's turn, and no choice mixes it with control tokens.
    fn check_text(&self, key: &str, names: &[String]) -> Checked<()> {
        let Some(name) = names.iter().find(|name| self.is_text_name(name)) else { return Ok(()) };
        if !text_markers::may_stand_in(key) {
            let problem = format!(
                "has `{{{name}}}`, which `text` defines, expected it in the assistant's turn and in calls only"
            );
            return wrong(key, problem);
        }
        if names.iter().any(|name| !self.is_text_name(name)) {
            let problem =
                format!("has `{{{name}}}` of `text` beside a control token, expected one kind");
            return wrong(key, problem);
        }
        Ok(())
    }

    /// A spelling that is an ordinary word is not a marker: ChatGLM3's `sop` occurs in
    /// `sophisticated`. The texts of `[text]` are markers in the assistant's turn only, and in tags.
    pub(super) fn refuse_spelling(&self, key: &str, text: &str) -> Checked<()> {
        let may_stand = text_markers::may_stand_in(key) || key.starts_with("tag.");
        let is_marker = |at: usize| at < self.own || may_stand;
        let mut found =
            self.finder.find_iter(text).map(|found| self.spelled[found.pattern().as_usize()]);
        let Some((at, nth)) = found.find(|(at, _)| is_marker(*at)) else { return Ok(()) };
        let (name, spellings) = &self.control[at];
        wrong(key, format!("spells `{}` as text, expected `{{{name}}}`", spellings[nth]))
    }

    /// Whether the file defines a token, marker or tag of this name.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a token is among those that patterns had used.
    pub(super) fn is_used(&self, name: &str, used: &[bool]) -> bool {
        self.by_name.get(name).is_some_and(|&at| used[at])
    }

    /// Which control tokens a pattern has used so far.
    pub(super) fn used(&self) -> Vec<bool> {
        self.used.borrow().clone()
    }

    pub(super) fn refuse_unused(&self) -> Checked<()> {
        let control = self.control.iter().enumerate();
        let control = control.map(|(at, (name, _))| (key_of(name, at < self.own), name));
        let mut names =
            control.chain(self.tags.iter().map(|(name, _)| (format!("tag.{name}"), name)));
        match self.used.borrow().iter().position(|used| !used).and_then(|at| names.nth(at)) {
            Some((key, name)) => {
                let problem =
                    format!("is used by no pattern; expected `{{{name}}}` in one, or no such line");
                wrong(key, problem)
            }
            None => Ok(()),
        }
    }
}

/// Whether patterns of a key may have tags: those of turns, of prompts and of calls.
fn may_have_tags(key: &str) -> bool {
    let calls = ["calls.", "call.", "also."];
    begins_as_turns_do(key) || calls.iter().any(|begin| key.starts_with(begin))
}

/// Whether patterns of a key stand where a turn begins: those of turns, results and prompts.
fn begins_as_turns_do(key: &str) -> bool {
    let prompts = ["generation.prompt", "generation.thinking", "generation.no_thinking"];
    let turns = ["turn.", "named.", "last.", "frame.", "after_tool.", "results."];
    prompts.contains(&key) || turns.iter().any(|begin| key.starts_with(begin))
}

/// The key of a control token, or of a marker that is text.
fn key_of(name: &str, is_control: bool) -> String {
    format!("{}.{name}", if is_control { "control" } else { "text" })
}

fn check_filter(key: &str, field: Field, filter: Filter) -> Checked<()> {
    let fits = match filter {
        Filter::None => true,
        Filter::Trim | Filter::TrimEnd | Filter::TrimEndSpaces => {
            matches!(field, Field::Content | Field::System | Field::Reasoning)
        }
        Filter::TrimLines | Filter::TrimLinesStart => {
            matches!(field, Field::Content | Field::Reasoning)
        }
        Filter::Value | Filter::String => field == Field::Content,
        Filter::MonthDay | Filter::DayMonth => field == Field::Date,
        Filter::Capital => field == Field::Effort,
    };
    if fits {
        return Ok(());
    }
    wrong(
        key,
        format!("has a filter that `{{{}}}` cannot have, expected another or none", field.name()),
    )
}
