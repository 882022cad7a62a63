//! Where a template writes reasoning.

use serde_json::Value;

use super::draft::{Draft, Reasoning};
use super::probe::{
    ANSWER, Given, LATER, Probes, QUESTION, SECOND, THOUGHT, assistant, calling, common_start,
    is_mark, result, thinking, user,
};
use super::proof;
use crate::codec::Codec;

/// Keys under which templates look for reasoning.
const KEYS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Drafts with reasoning, the likeliest first.
pub(super) struct Thought {
    pub(super) key: &'static str,
    pub(super) candidates: Vec<Draft>,
}

fn last(key: &str) -> [Value; 2] {
    [user(QUESTION), thinking(ANSWER, key, THOUGHT)]
}

/// Finds where reasoning is written; none if the template does not write it.
pub(super) fn find(probes: &Probes, base: &Draft) -> Option<Thought> {
    let given = Given::default();
    let (text, key) = KEYS.into_iter().find_map(|key| {
        let text = probes.text(&last(key), given, false)?;
        text.contains(THOUGHT).then_some((text, key))
    })?;
    let thought = Thought { key, candidates: Vec::new() };
    let Some((_, rest)) = text.split_once(QUESTION) else { return Some(thought) };
    let Some(rest) = base.answer_in(rest) else { return Some(thought) };
    let (Some((head, rest)), true) = (rest.split_once(THOUGHT), rest.contains(ANSWER)) else {
        return Some(thought);
    };
    let Some((middle, end)) = rest.split_once(ANSWER) else { return Some(thought) };
    let history = [last(key).to_vec(), vec![user(LATER)]].concat();
    let is_in = |messages: &[Value], given| {
        probes.text(messages, given, false).is_some_and(|text| text.contains(THOUGHT))
    };
    let tools = Given { tools: true, ..given };
    let mut called = calling("", 1, tools);
    called[key] = THOUGHT.into();
    let round = [user(QUESTION), called, result(0, tools), assistant(SECOND)];
    let written = match (is_in(&history, given), is_in(&round, tools)) {
        (true, _) => "all",
        (false, true) => "since_last_user",
        (false, false) => "last",
    };
    let reasoning =
        Reasoning { head: head.into(), middle: middle.into(), is_framed: false, written };
    let mut candidates = Vec::new();
    // A turn of its own: after it, the answer begins anew.
    let close = middle.strip_suffix(base.head.as_str()).filter(|close| close.contains(is_mark));
    candidates.extend(close.map(|close| {
        let framed = Reasoning { middle: close.into(), is_framed: true, ..reasoning.clone() };
        Draft { reasoning: Some(framed), ..base.clone() }
    }));
    let head_end = common_start(head, &base.whole_prompt);
    let mut prompts = vec![
        base.whole_prompt.clone(),
        base.whole_prompt[..head_end].to_owned(),
        base.prompt.clone(),
    ];
    prompts.dedup();
    // The answer without reasoning as it is written; without its empty block; not at all.
    let plain_head = match head.find(is_mark) {
        _ if base.head.starts_with(head.trim_end()) => {
            let block = head.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
            head[..block].to_owned()
        }
        _ => base.head.clone(),
    };
    for prompt in prompts {
        for (plain, last_head) in [
            (base.head.clone(), base.last_head.clone()),
            (base.head.clone(), None),
            (plain_head.clone(), Some(base.head.clone())),
            (plain_head.clone(), None),
            (format!("{head}{{reasoning}}{middle}"), None),
        ] {
            let draft = Draft {
                prompt: prompt.clone(),
                head: plain,
                last_head,
                reasoning: Some(reasoning.clone()),
                ..base.clone()
            };
            candidates.push(draft.clone());
            if end != base.end && end.starts_with(is_mark) {
                candidates.push(Draft { end: end.to_owned(), ..draft });
            }
        }
    }
    Some(Thought { key, candidates })
}

/// Whether reasoning is read: in a conversation, and in a completion.
pub(super) fn reads(codec: &Codec, probes: &Probes, key: &str) -> bool {
    let (messages, given) = (last(key), Given::default());
    proof::reads_whole(codec, probes, &messages, given)
        && proof::reads_answer(codec, probes, &messages, given).unwrap_or(true)
}

/// Whether reasoning is read, under whichever key the template writes it.
pub(super) fn reads_some(codec: &Codec, probes: &Probes) -> bool {
    let is_written = |key: &str| {
        probes.text(&last(key), Given::default(), false).is_some_and(|text| text.contains(THOUGHT))
    };
    KEYS.into_iter().find(|key| is_written(key)).is_none_or(|key| reads(codec, probes, key))
}
