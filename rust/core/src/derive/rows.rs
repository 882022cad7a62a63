//! The plain rows of a template: where its turns begin and end.

use super::draft::{Draft, Row};
use super::probe::{
    ANSWER, Given, LATER, Probes, QUESTION, SECOND, SYSTEM, assistant, common_start, is_mark,
    system, user,
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
    let (_, prompted_end) = prompted.split_once(QUESTION)?;
    let (_, answered_end) = answered.split_once(ANSWER)?;
    let (_, rest) = followed.split_once(QUESTION)?;
    let (between, rest) = rest.split_once(ANSWER)?;
    let (after, _) = rest.split_once(LATER)?;
    let last_between =
        last.as_deref().and_then(|last| Some(last.split_once(LATER)?.1.split_once(SECOND)?.0));
    let instructed = instructed.as_deref().and_then(|text| {
        let (head, rest) = text.split_once(SYSTEM)?;
        Some((head, rest.split_once(QUESTION)?.0))
    });

    let mut drafts = Vec::new();
    let known = |text: &str, end: &str| text.starts_with(end).then_some(end.len());
    for cut in cuts(after, known(after, answered_end)) {
        let (end, user_head) = after.split_at(cut);
        let Some(before) = before.strip_suffix(user_head).filter(|_| !user_head.is_empty()) else {
            continue;
        };
        for cut in cuts(between, known(between, asked_end)) {
            let (user_end, head) = between.split_at(cut);
            let shown = prompted_end.strip_prefix(user_end);
            let shown =
                shown.or_else(|| user_end.trim().is_empty().then(|| prompted_end.trim_start()));
            let Some(whole) = shown else { continue };
            let shared = &whole[..common_start(whole, head)];
            let stop =
                if end.contains(is_mark) { None } else { user_head.chars().find(|c| is_mark(*c)) };
            let last_head = last_between
                .and_then(|last| last.strip_prefix(user_end))
                .filter(|last| *last != head);
            let has_marks =
                user_head.contains(is_mark) && (head.contains(is_mark) || head.trim().is_empty());
            for begin in begins(before) {
                for system in systems(instructed, begin, user_head) {
                    for prompt in [shared, shared.trim_end()] {
                        if prompt.len() == shared.len() || prompt != shared {
                            for (is_ids, is_alternate) in
                                [(true, false), (true, true), (false, false), (false, true)]
                            {
                                if is_ids && !has_marks {
                                    continue;
                                }
                                let draft = Draft {
                                    is_ids,
                                    is_alternate,
                                    is_always_prompted: asked == prompted && !shared.is_empty(),
                                    begin: begin.to_owned(),
                                    prompt: prompt.to_owned(),
                                    whole_prompt: whole.to_owned(),
                                    stop: stop.into_iter().collect(),
                                    system: system.clone(),
                                    user: (user_head.to_owned(), user_end.to_owned()),
                                    user_end: user_end.to_owned(),
                                    head: head.to_owned(),
                                    end: end.to_owned(),
                                    last_head: last_head.map(str::to_owned),
                                    ..Draft::default()
                                };
                                // A last answer with a header of its own, and the same without it.
                                if last_head.is_some() {
                                    drafts.push(Draft { last_head: None, ..draft.clone() });
                                }
                                drafts.push(draft);
                            }
                        }
                    }
                }
            }
        }
    }
    // If several tokens close a turn, the row uses the first.
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
    let drafts = kept;
    Some(drafts)
}
