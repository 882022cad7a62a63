//! What models write in other ways than their format does: in any split the same events, none of it raises, and
//! the ranges of the events cover all of it.

use crate::common::events::{check_ranges, check_stream, read_text};
use crate::common::table::{Entry, check_each, entries, with_lossy};
use crate::formats_streams::{ids, shuffled};
use chatcodec::{
    BareCalls, EncodeOptions, MarkerPolicy, Message, Role, Spelling, Stream, TokenId, ToolTypes,
    TurnReason,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::json;

/// What models write around calls and in them.
const WRITTEN: [&str; 42] = [
    "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
    "{\"name\": \"f\", \"parameters\": {",
    "{\"type\": \"function\", \"name\": \"g\", \"arguments\": {}}",
    "{\"name\": \"other\", \"arguments\": {}}",
    "\"a\": [1, {\"b\": null}]",
    "}",
    "]",
    "; ",
    ", ",
    "\n",
    "\n\n",
    " ",
    "So: ",
    "```json\n",
    "```",
    "[f(a=1)]",
    "[f(a='x', b=True), g()]",
    "functools[",
    "<function=f>",
    "<function=\"g\">",
    "\n<parameter=a>\nx\n",
    "</parameter>\n",
    "</function>\n",
    "<invoke name=\"f\">",
    "<invoke name='g' more=\"1\">",
    "<parameter name=\"a\">",
    "<parameter name='b' type=\"string\">",
    "</invoke>",
    "f",
    "functions.f:0",
    "None",
    "<think>",
    "</think>",
    "'",
    "{'name': 'f', 'arguments': {'a': None}}",
    "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}",
    "{'a': 'x', \"b\": [True, ],}",
    "\"{\\\"a\\\": 1}\"",
    "\\",
    ",]",
    "function",
    "[f(a=+1,),]",
];

fn tools() -> ToolTypes {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "int | None"}}});
    let tools = json!([{"name": "f", "parameters": parameters}, {"name": "g"}]);
    ToolTypes::read(&tools).expect("they are tools")
}

/// Text as models write it, with characters taken out and doubled.
fn written(entry: &'static Entry) -> impl Strategy<Value = String> {
    let texts = [&WRITTEN[..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let own = if entry.meant.is_empty() { texts.clone() } else { entry.meant.clone() };
    let piece = prop_oneof![3 => select(texts), 2 => select(own)];
    (vec(piece, 0..14), vec((any::<Index>(), any::<bool>()), 0..3)).prop_map(|(pieces, edits)| {
        let mut chars: Vec<char> = pieces.concat().chars().collect();
        for (at, is_doubled) in edits {
            let Some(&c) = chars.get(at.index(chars.len().max(1))) else { continue };
            let at = at.index(chars.len());
            if is_doubled {
                chars.insert(at, c);
            } else {
                chars.remove(at);
            }
        }
        chars.into_iter().collect()
    })
}

fn streams(entry: &Entry, bare: BareCalls) -> Stream {
    entry.codec.stream(None).typed(&tools()).calling_bare(bare)
}

const BARE: [BareCalls; 3] = [BareCalls::Text, BareCalls::Line, BareCalls::Anywhere];

#[test]
fn ids_in_any_split() {
    let inputs = |entry: &'static Entry| {
        let encode = |text: String| entry.codec.vocab().try_encode(&text).unwrap_or_default();
        let text = written(entry).prop_map(encode);
        let pieces = vec(prop_oneof![2 => text, 1 => ids(entry), 1 => shuffled(entry)], 1..4);
        let policy = select(&[MarkerPolicy::Ids, MarkerPolicy::IdsOrText]);
        (pieces, select(&BARE), policy, any::<[Index; 4]>())
    };
    check_each(with_lossy(), 60, inputs, |entry, (pieces, bare, policy, cuts)| {
        let ids: Vec<TokenId> = pieces.concat();
        let cuts = cuts.map(|cut| cut.index(ids.len() + 1));
        check_stream(&streams(entry, bare).reading(policy), &ids, cuts)?;
        Ok(())
    });
}

#[test]
fn text_in_any_split() {
    let inputs = |entry| (written(entry), select(&BARE), any::<[Index; 3]>());
    check_each(with_lossy(), 120, inputs, |entry, (text, bare, cuts)| {
        let stream = || streams(entry, bare).reading(MarkerPolicy::Text);
        let whole = read_text(stream(), [&*text], TurnReason::Stop);
        check_ranges(&whole, text.chars().count())?;
        let by_char: Vec<String> = text.chars().map(String::from).collect();
        let told = read_text(stream(), by_char.iter().map(String::as_str), TurnReason::Stop);
        prop_assert_eq!(&told, &whole, "by character");
        for cut in cuts {
            let cut = by_char.iter().take(cut.index(by_char.len() + 1)).map(String::len).sum();
            let (head, tail) = text.split_at(cut);
            prop_assert_eq!(&read_text(stream(), [head, tail], TurnReason::Stop), &whole);
        }
        Ok(())
    });
}

fn prompts(entry: &Entry) -> Vec<Vec<TokenId>> {
    let options = [None, Some(true), Some(false)].map(|thinking| EncodeOptions {
        add_generation_prompt: Some(true),
        thinking,
        ..EncodeOptions::default()
    });
    let messages = [Message::new(Role::User, "x")];
    let encoded = options.iter().filter_map(|options| entry.encode(&messages, options).ok());
    encoded.map(|encoding| encoding.ids().to_vec()).collect()
}

/// A completion is the last message of the conversation that it makes with its prompt, where ids tell turns apart.
#[test]
fn decode_reads_what_parse_reads() {
    let inputs = |entry: &'static Entry| {
        let encode = |text: String| entry.codec.vocab().try_encode(&text).unwrap_or_default();
        let text = written(entry).prop_map(encode);
        let pieces = vec(prop_oneof![2 => text, 1 => ids(entry), 1 => shuffled(entry)], 1..4);
        (pieces, select(prompts(entry)))
    };
    let begins = |entry: &&Entry| entry.is_ids() && !entry.codec.generation_prompt().is_empty();
    let entries = entries().iter().filter(begins);
    check_each(entries, 120, inputs, |entry, (pieces, prompt)| {
        let mut ids: Vec<TokenId> = pieces.concat();
        let parsed = entry.codec.parse(&ids, Some(&prompt));
        ids.truncate(parsed.rest);
        let said = entry.codec.vocab().decode(&ids, Spelling::Spell);
        // A prompt that ends in a word goes on with it.
        let is_word_char = |c: char| c.is_alphanumeric() || "_.:-".contains(c);
        let is_word = |text: &String| text.starts_with(is_word_char);
        let goes_on = entry.format.starts_with("harmony") && said.as_ref().map_or(true, is_word);
        let is_nothing = parsed.message == Message::new(Role::Assistant, "");
        prop_assume!(!goes_on && !is_nothing);
        let is_closed = ids.last().is_some_and(|id| entry.codec.stop_ids().contains(id));
        let messages = entry.codec.decode(&[prompt, ids].concat());
        let mut last = messages.last().cloned().unwrap_or_else(|| Message::new(Role::User, ""));
        last.number_calls();
        let mut message = parsed.message;
        // In a turn that is left open, white space at the end is text; `parse` takes the end for the format's.
        if !is_closed {
            last.content.truncate(last.content.trim_end().len());
            message.content.truncate(message.content.trim_end().len());
        }
        let names_functions = entry.ids_name_functions();
        for (call, decoded) in message.calls.iter_mut().zip(&last.calls) {
            // `parse` gives the model's own id; in a conversation, an id names the call's function and has a number.
            let is_named = |id: &String| {
                let number = id.rsplit_once(':').map(|(_, number)| number);
                id.starts_with("functions.") && number.is_some_and(|it| it.parse::<u32>().is_ok())
            };
            if names_functions && !call.id.as_ref().is_some_and(is_named) {
                call.id.clone_from(&decoded.id);
            }
        }
        prop_assert_eq!(last, message, "{:?} in {:?}", said, messages);
        Ok(())
    });
}
