//! The plain rows of a template: where its turns begin and end.

use super::draft::{Draft, Row};
use super::probe::{
    ANSWER, Given, LATER, Probes, QUESTION, SECOND, SYSTEM, assistant, calling, common_start,
    is_mark, result, system, user,
};

/// Where a text between two contents may be cut: at the place that is known, beside control tokens, after white space.
fn cuts(text: &str, known: Option<usize>) -> Vec<usize> {
    let mut cuts: Vec<usize> = known.into_iter().collect();
    let marks = || text.char_indices().filter(|(_, character)| is_mark(*character));
    cuts.extend(marks().map(|(at, _)| at).filter(|at| *at > 0));
    for (at, mark) in marks() {
        let rest = &text[at + mark.len_utf8()..];
        cuts.push(text.len() - rest.len());
        cuts.push(text.len() - rest.trim_start().len());
    }
    cuts.push(text.len() - text.trim_start().len());
    cuts.push(0);
    let mut seen = Vec::new();
    cuts.retain(|cut| {
        !seen.contains(cut) && {
            seen.push(*cut);
            true
        }
    });
    cuts
}

/// Candidates for the text before the first turn: control tokens and white space at the start.
fn begins(before: &str) -> Vec<&str> {
    let mut begins: Vec<&str> = Vec::new();
    let leading =
        before.len() - before.trim_start_matches(|c: char| is_mark(c) || c.is_whitespace()).len();
    let first = before.chars().next().filter(|c| is_mark(*c)).map_or(0, char::len_utf8);
    let marks = before.len() - before.trim_start_matches(is_mark).len();
    for end in [leading, marks, first, 0] {
        if !begins.contains(&&before[..end]) {
            begins.push(&before[..end]);
        }
    }
    begins
}

/// The header alone: without the fixed text that follows it.
fn header(head: &str) -> &str {
    let after = head
        .rfind(is_mark)
        .map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8));
    match head[after..].find('\n') {
        Some(line) => {
            let end = after + line + 1;
            &head[..head.len() - head[end..].trim_start_matches('\n').len()]
        }
        None => &head[..after],
    }
}

/// Rows that a system message may have: as written, and the header alone.
fn systems(written: Option<(&str, &str)>, begin: &str, user_head: &str) -> Vec<Option<Row>> {
    let mut rows = Vec::new();
    if let Some((head, middle)) = written
        && let (Some(head), Some(end)) = (head.strip_prefix(begin), middle.strip_suffix(user_head))
    {
        rows.push(Some((head.to_owned(), end.to_owned())));
        let short = header(head);
        let last = end.rfind(is_mark).unwrap_or(0);
        if (short, last) != (head, 0) && !short.is_empty() {
            rows.push(Some((short.to_owned(), end[last..].to_owned())));
        }
    }
    rows.push(None);
    rows
}

/// Whether only white space follows the first control token of an end.
fn is_closed(end: &str) -> bool {
    end.split_once(is_mark).is_none_or(|(_, rest)| rest.trim().is_empty())
}

/// The end of a turn up to the first token that closes it.
fn closed(end: &str) -> &str {
    let mut marks = end.char_indices().filter(|(_, character)| is_mark(*character));
    match (marks.next(), marks.next()) {
        (Some((at, mark)), Some(_)) => &end[..at + mark.len_utf8()],
        _ => end,
    }
}

/// Drafts of plain rows, the likeliest first.
pub(super) fn candidates(probes: &Probes) -> Option<Vec<Draft>> {
    let around = Around::of(probes)?;
    let mut drafts = Vec::new();
    for turns in around.turns() {
        around.push_drafts(&turns, &mut drafts);
    }
    Some(with_closed_turns(drafts))
}

/// Drafts that read answers alone: all before an answer is one question.
pub(super) fn of_answers(probes: &Probes) -> Option<Vec<Draft>> {
    let around = Around::of(probes)?;
    for tools in [false, true] {
        let given = Given { tools, ..Given::default() };
        // Tokens of calls are not free.
        probes.text(&[user(QUESTION), calling("", 1, given), result(0, given)], given, false);
    }
    let free = probes.free_mark()?;
    let shared = common_start(&around.between, &around.prompted_end);
    let opener = around.between[..shared].rfind(is_mark);
    // What ends each answer, or else each but the last one.
    let always = &around.after[..common_start(&around.after, &around.answered_end)];
    let ends = if always.contains(is_mark) { always } else { closed(&around.after) };
    let mut marks = ends.char_indices().filter(|(_, character)| is_mark(*character));
    let (at, mark) = marks.next()?;
    let end = &ends[..at + mark.len_utf8()];
    // A header that is text alone is the question's, and a token that comes nowhere stands for it.
    let stand_in = match opener {
        Some(_) => String::new(),
        None => probes.free_mark()?.to_string(),
    };
    let after = |text: &str, end: usize| match opener {
        Some(opener) => text[opener..end].to_owned(),
        None => stand_in.clone(),
    };
    let draft = Draft {
        is_ids: true,
        prompt: after(&around.between, shared),
        whole_prompt: after(&around.prompted_end, around.prompted_end.len()),
        stop: marks.next().map(|(_, mark)| mark).into_iter().collect(),
        user: (free.to_string(), mark.to_string()),
        user_end: around.between[..opener.unwrap_or(around.between.len())].to_owned(),
        head: after(&around.between, around.between.len()),
        end: end.to_owned(),
        stand_in: stand_in.clone(),
        ..Draft::default()
    };
    let mut drafts = Vec::new();
    // A text between two tokens of its own, before the token that ends the turn.
    if let (true, Some(&stop)) = (draft.head.ends_with(is_mark), draft.stop.first()) {
        let (at, mark) = ends.char_indices().find(|(_, mark)| *mark == stop)?;
        drafts.push(Draft {
            stop: Vec::new(),
            user: (free.to_string(), stop.to_string()),
            end: ends[..at + mark.len_utf8()].to_owned(),
            ..draft.clone()
        });
    }
    let bare = Draft { prompt: draft.prompt.trim_end().to_owned(), ..draft.clone() };
    drafts.extend([draft, bare]);
    Some(drafts)
}

/// The text that a template writes around the contents of a few conversations.
struct Around {
    /// Before the first question.
    before: String,
    /// After the question that a conversation ends with.
    asked_end: String,
    /// The same, with the generation prompt.
    prompted_end: String,
    /// After the answer that a conversation ends with.
    answered_end: String,
    /// Between a question and its answer.
    between: String,
    /// Between an answer and the next question.
    after: String,
    /// Between the last question and the last answer.
    last_between: Option<String>,
    /// Before a system message, and between the message and the question.
    instructed: Option<(String, String)>,
    /// Whether a question has the same text with the generation prompt and without.
    is_same_prompted: bool,
}

impl Around {
    /// Renders the conversations; none if the template does not write their contents.
    fn of(probes: &Probes) -> Option<Self> {
        let given = Given::default();
        let text = |messages: &[_], prompted| probes.text(messages, given, prompted);
        let (question, answer, later) = (user(QUESTION), assistant(ANSWER), user(LATER));
        let asked = text(std::slice::from_ref(&question), false)?;
        let prompted = text(std::slice::from_ref(&question), true)?;
        let answered = text(&[question.clone(), answer.clone()], false)?;
        let history = [question.clone(), answer, later, assistant(SECOND)];
        let followed = text(&history[..3], false)?;
        let last = text(&history, false);
        let instructed = text(&[system(SYSTEM), question], false);

        let (before, asked_end) = asked.split_once(QUESTION)?;
        let (_, rest) = followed.split_once(QUESTION)?;
        let (between, rest) = rest.split_once(ANSWER)?;
        Some(Self {
            before: before.to_owned(),
            asked_end: asked_end.to_owned(),
            prompted_end: prompted.split_once(QUESTION)?.1.to_owned(),
            answered_end: answered.split_once(ANSWER)?.1.to_owned(),
            between: between.to_owned(),
            after: rest.split_once(LATER)?.0.to_owned(),
            last_between: last
                .and_then(|last| Some(last.split_once(LATER)?.1.split_once(SECOND)?.0.to_owned())),
            instructed: instructed.and_then(|text| {
                let (head, rest) = text.split_once(SYSTEM)?;
                Some((head.to_owned(), rest.split_once(QUESTION)?.0.to_owned()))
            }),
            is_same_prompted: asked == prompted,
        })
    }

    /// The ways to cut the text between contents into turns.
    fn turns(&self) -> Vec<Turns<'_>> {
        let known = |text: &str, end: &str| text.starts_with(end).then_some(end.len());
        let mut turns = Vec::new();
        for cut in cuts(&self.after, known(&self.after, &self.answered_end)) {
            let (end, user_head) = self.after.split_at(cut);
            let before = self.before.strip_suffix(user_head);
            let Some(before) = before.filter(|_| !user_head.is_empty()) else { continue };
            for cut in cuts(&self.between, known(&self.between, &self.asked_end)) {
                let (user_end, head) = self.between.split_at(cut);
                let Some(prompt) = self.prompt_after(user_end) else { continue };
                turns.push(Turns {
                    before,
                    user: (user_head, user_end),
                    answer: (head, end),
                    prompt,
                });
            }
        }
        turns
    }

    /// The generation prompt, if a user's turn ends so.
    fn prompt_after(&self, user_end: &str) -> Option<&str> {
        let prompt = self.prompted_end.strip_prefix(user_end);
        prompt.or_else(|| user_end.trim().is_empty().then(|| self.prompted_end.trim_start()))
    }

    /// The head of the last answer, if it differs from the head of an earlier one.
    fn last_head(&self, turns: &Turns<'_>) -> Option<&str> {
        let last = self.last_between.as_deref()?.strip_prefix(turns.user.1)?;
        Some(last).filter(|last| *last != turns.answer.0)
    }

    /// Appends the drafts of turns: of each text before them, each system row, each prompt and each guarantee.
    fn push_drafts(&self, turns: &Turns<'_>, drafts: &mut Vec<Draft>) {
        let instructed = self.instructed.as_ref().map(|(head, middle)| (&**head, &**middle));
        for begin in begins(turns.before) {
            for system in systems(instructed, begin, turns.user.0) {
                for prompt in turns.prompts() {
                    for (is_ids, is_alternate) in turns.kinds() {
                        let draft = Draft {
                            is_ids,
                            is_alternate,
                            begin: begin.to_owned(),
                            prompt: prompt.to_owned(),
                            system: system.clone(),
                            ..self.draft(turns)
                        };
                        // A last answer with a header of its own, and the same without it.
                        if draft.last_head.is_some() {
                            drafts.push(Draft { last_head: None, ..draft.clone() });
                        }
                        drafts.push(draft);
                    }
                }
            }
        }
    }

    /// The parts of a draft that turns alone decide.
    fn draft(&self, turns: &Turns<'_>) -> Draft {
        Draft {
            is_always_prompted: self.is_same_prompted && !turns.shared_prompt().is_empty(),
            whole_prompt: turns.prompt.to_owned(),
            stop: turns.stop().into_iter().collect(),
            user: (turns.user.0.to_owned(), turns.user.1.to_owned()),
            user_end: turns.user.1.to_owned(),
            head: turns.answer.0.to_owned(),
            end: turns.answer.1.to_owned(),
            last_head: self.last_head(turns).map(str::to_owned),
            ..Draft::default()
        }
    }
}

/// One way to cut the text between contents: the head and the end of each turn.
struct Turns<'a> {
    /// The text before the first user's turn.
    before: &'a str,
    user: (&'a str, &'a str),
    answer: (&'a str, &'a str),
    /// The generation prompt.
    prompt: &'a str,
}

impl<'a> Turns<'a> {
    /// The common beginning of the generation prompt and of an answer's turn.
    fn shared_prompt(&self) -> &'a str {
        &self.prompt[..common_start(self.prompt, self.answer.0)]
    }

    /// Prompts that a format may have: the shared one, and the same without white space at its end.
    fn prompts(&self) -> [&'a str; 2] {
        let shared = self.shared_prompt();
        [shared, shared.trim_end()]
    }

    /// The token that stops an answer, if it is the first of the next turn.
    fn stop(&self) -> Option<char> {
        let is_own = self.answer.1.contains(is_mark);
        if is_own { None } else { self.user.0.chars().find(|c| is_mark(*c)) }
    }

    /// Whether turns begin with ids, and whether roles alternate. Ids need a control token at each head.
    fn kinds(&self) -> impl Iterator<Item = (bool, bool)> + use<> {
        let head = self.answer.0;
        let has_marks =
            self.user.0.contains(is_mark) && (head.contains(is_mark) || head.trim().is_empty());
        let all = [(true, false), (true, true), (false, false), (false, true)];
        all.into_iter().filter(move |(is_ids, _)| has_marks || !is_ids)
    }
}

/// Drafts whose turns a single token closes; where several tokens close a turn, the row uses the first. These come last.
fn with_closed_turns(drafts: Vec<Draft>) -> Vec<Draft> {
    let (mut kept, others): (Vec<Draft>, Vec<Draft>) = drafts.into_iter().partition(|draft| {
        let ends = [&draft.end, &draft.user.1]
            .into_iter()
            .chain(draft.system.as_ref().map(|(_, end)| end));
        ends.into_iter().all(|end| is_closed(end))
    });
    kept.extend(others.into_iter().map(|draft| Draft {
        stop: draft.end.chars().filter(|c| is_mark(*c)).skip(1).take(1).collect(),
        end: closed(&draft.end).to_owned(),
        user: (draft.user.0.clone(), closed(&draft.user.1).to_owned()),
        system: draft.system.as_ref().map(|(head, end)| (head.clone(), closed(end).to_owned())),
        ..draft
    }));
    kept
}
