//! What is trained on ends with what stops the model, in every built-in format.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::dialogue::dialogue;
use crate::common::outside;
use crate::common::spec::{Element, Spec};
use crate::common::table::{Entry, calling, check_each, entries, function};
use chatcodec::{
    Boundary, EncodeOptions, Encoding, LabelOptions, Message, OnMarker, Role, TokenId,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn options(isolated: bool, stop_final: bool) -> EncodeOptions {
    let boundary = if isolated { Boundary::Isolated } else { Boundary::Reference };
    EncodeOptions { boundary, stop_final, ..EncodeOptions::default() }
}

/// The trained ids of each turn, and the position after its last.
fn trained(encoding: &Encoding) -> Vec<(Vec<TokenId>, usize)> {
    let labels = encoding.labels(&LabelOptions::default());
    let mut turns = Vec::new();
    let mut turn = Vec::new();
    for (at, label) in labels.into_iter().chain([-100]).enumerate() {
        if label != -100 {
            turn.push(label);
        } else if !turn.is_empty() {
            turns.push((std::mem::take(&mut turn), at));
        }
    }
    turns
}

/// Whether a control token that stops no model comes next: another message of the assistant's, or of the system.
fn goes_on_without_stop(entry: &Entry, encoding: &Encoding, next: usize) -> bool {
    let is_control = encoding.is_control().get(next) == Some(&1);
    is_control && !entry.codec.stop_ids().contains(&encoding.ids()[next])
}

fn check_turn(
    entry: &Entry,
    encoding: &Encoding,
    (turn, next): &(Vec<TokenId>, usize),
    stop_final: bool,
) -> Result<(), TestCaseError> {
    let stops = entry.codec.stop_ids();
    let is_last = *next == encoding.ids().len();
    let has_stop = turn.last().is_some_and(|last| stops.contains(last));
    // An answer of harmony's that another turn follows ends as its library writes it.
    let is_framed = entry.format.starts_with("harmony");
    let is_excused = is_framed && !is_last
        || goes_on_without_stop(entry, encoding, *next)
        || is_last && !stop_final;
    prop_assert!(has_stop || is_excused, "{turn:?} has no stop id in {:?}", encoding.text());
    let inner = &turn[..turn.len() - usize::from(has_stop)];
    // A call of harmony's stops the model, and another may come after it.
    prop_assert!(is_framed || !inner.iter().any(|id| stops.contains(id)), "{turn:?}");
    Ok(())
}

/// Each turn that is trained on has one stop id, at its end.
#[test]
fn each_trained_turn_ends_with_its_stop() {
    let (stopped, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    check_each(
        entries(),
        120,
        |entry| (dialogue(entry), any::<bool>(), any::<bool>()),
        |entry, (dialogue, isolated, stop_final)| {
            let options = options(isolated, stop_final);
            let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
            for turn in trained(&encoding) {
                check_turn(entry, &encoding, &turn, stop_final)?;
                let has_stop = turn.0.last().is_some_and(|id| entry.codec.stop_ids().contains(id));
                stopped.fetch_add(usize::from(has_stop), Ordering::Relaxed);
                all.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        },
    );
    let (stopped, all) = (stopped.into_inner(), all.into_inner());
    assert!(2 * stopped > all, "{stopped} of {all}");
}

/// The first token of `generation.stop` that the vocabulary has, which stops a model although no row writes it at a
/// turn's end.
fn unwritten_stop(entry: &Entry) -> Option<TokenId> {
    let spec = Spec::new(entry.format, entry.codec.format().text());
    let stop = spec.patterns(&["generation", "stop"]).concat();
    let Some(Element::Control(names)) = stop.first() else { return None };
    let control = entry.codec.vocab().control();
    names.iter().flat_map(|name| &spec.control[name]).find_map(|text| control.get(text).copied())
}

/// `stop_final` adds one id to what the format leaves without a stop, and nothing else; it is read as nothing.
#[test]
fn a_final_stop_is_read_as_the_end() {
    check_each(entries(), 60, dialogue, |entry, dialogue| {
        let on_marker = if entry.is_certain() { OnMarker::Report } else { OnMarker::Error };
        let options = |stop_final| EncodeOptions { on_marker, ..options(false, stop_final) };
        let Ok(plain) = dialogue.encode(entry, &options(false)) else { return outside() };
        let stopped = dialogue.encode(entry, &options(true)).expect("as before");
        let more = stopped.ids().strip_prefix(plain.ids()).expect("nothing else changes");
        if let [more] = more {
            let stop = unwritten_stop(entry).expect("the file names a token");
            prop_assert_eq!(stop, *more);
            prop_assert!(entry.codec.stop_ids().contains(more));
        } else {
            prop_assert!(more.is_empty());
        }
        prop_assert_eq!(stopped.message_indices().len(), stopped.ids().len());
        prop_assert_eq!(entry.codec.decode(stopped.ids()), entry.codec.decode(plain.ids()));
        Ok(())
    });
}

/// The opener that stops a model is trained on with the turn before it, and is of the message that it opens.
#[test]
fn an_opener_that_stops_is_of_its_own_message() {
    for entry in entries() {
        let turns = [(Role::User, "a"), (Role::Assistant, "b"), (Role::User, "c")];
        let messages = turns.map(|(role, text)| Message::new(role, text)).to_vec();
        let encoding = entry.encode(&messages, &options(true, false)).expect("all can write it");
        let turns = trained(&encoding);
        assert_eq!(turns.len(), 1, "{}", entry.name);
        check_turn(entry, &encoding, &turns[0], false).unwrap_or_else(|e| panic!("{e}"));
        let last = turns[0].1 - 1;
        let of = encoding.message_indices()[last];
        let opens = encoding.is_control()[last] == 1 && !entry.codec.vocab().control().is_empty();
        assert!(of == 1 || of == 2 && opens, "{}: message {of}", entry.name);
    }
}

/// A call that waits for its result ends with the token that opens one, where results go on in the assistant's turn.
#[test]
fn a_final_stop_after_a_call_opens_its_result() {
    let in_turn = |entry: &&Entry| {
        let text = entry.codec.format().text();
        let place = Spec::new(entry.format, text).get(&["place", "results"]).cloned();
        place.is_some_and(|place| place.as_str() == Some("assistant"))
    };
    assert!(entries().iter().any(|entry| in_turn(&entry)));
    for entry in entries().iter().filter(in_turn) {
        let asked = [Message::new(Role::User, "x"), calling(function("f", "{\"a\": 1}"))];
        let plain = entry.encode(&asked, &options(false, false)).expect("it has calls");
        let stopped = entry.encode(&asked, &options(false, true)).expect("it has calls");
        let answered = [&asked[..], &[Message::new(Role::Tool, "x")]].concat();
        let answered = entry.encode(&answered, &options(false, false)).expect("it has results");
        // What closes the call comes right before what opens its result.
        let closer = plain.ids().last().expect("a call");
        let at = answered.ids().iter().rposition(|id| id == closer).expect("a call");
        let more = &stopped.ids()[plain.ids().len()..];
        assert_eq!(more, &answered.ids()[at + 1..at + 2], "{}", entry.name);
    }
}
