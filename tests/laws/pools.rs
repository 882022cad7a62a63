//! P6 of pools: streams of every format, side by side in any order, tell what each of them tells alone.

use std::collections::HashMap;

use crate::common::events::{Start, merged, read};
use crate::common::table::{Entry, check_each, entries};
use crate::formats_streams::{ids, shuffled};
use chatcodec::{Event, Stream, StreamPool, TokenId, TurnReason};
use proptest::collection::vec;
use proptest::prelude::*;

/// A stream of a pool: what it is still to be given, and what it has told.
struct Reading<'a> {
    rest: &'a [TokenId],
    events: Vec<Event>,
}

/// Numbers that follow from a first one, for an order that shrinks with it.
struct Order(u64);

impl Order {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn start(entry: &Entry, kind: bool) -> Stream {
    if kind { Start::Conversation } else { Start::Completion }.stream(&entry.codec)
}

#[test]
fn interleaved_streams_tell_what_each_alone_does() {
    let stream = |entry| (any::<bool>(), prop_oneof![ids(entry), shuffled(entry)]);
    let inputs = |entry| (vec(stream(entry), 40..80), any::<u64>());
    let made = entries().iter().filter(|entry| entry.made);
    check_each(made, 2, inputs, |entry, (streams, order)| {
        let (mut order, mut pool) = (Order(order), StreamPool::new(&entry.codec));
        let mut waiting = streams.iter().enumerate();
        let mut open: HashMap<TokenId, (usize, Reading<'_>)> = HashMap::new();
        let mut told: Vec<Vec<Event>> = vec![Vec::new(); streams.len()];
        loop {
            // So many at once that slots are used again, by streams of another age.
            while open.len() < streams.len() / 2
                && let Some((nth, (kind, ids))) = waiting.next()
            {
                let slot = pool.open(start(entry, *kind));
                let slot = TokenId::try_from(slot).expect("few slots");
                open.insert(slot, (nth, Reading { rest: ids, events: Vec::new() }));
            }
            if open.is_empty() {
                break;
            }
            let mut given: Vec<(TokenId, TokenId)> = Vec::new();
            let mut slots: Vec<TokenId> = open.keys().copied().collect();
            slots.sort_unstable();
            for &slot in &slots {
                let reading = &mut open.get_mut(&slot).expect("it is open").1;
                let count = (order.below(4) as usize).min(reading.rest.len());
                let (now, rest) = reading.rest.split_at(count);
                given.extend(now.iter().map(|&id| (slot, id)));
                reading.rest = rest;
            }
            // A slot comes again after others have.
            let turn = order.below(given.len() as u64 + 1) as usize;
            let (each, ids): (Vec<_>, Vec<_>) = interleaved(&given, turn).into_iter().unzip();
            let mut said = Vec::new();
            pool.push(&each, &ids, &mut said).expect("they are open");
            for (slot, told) in said {
                let reading = &mut open.get_mut(&slot).expect("it is open").1;
                reading.events.push(told.into_event(entry.codec.vocab()));
            }
            for slot in slots {
                if open[&slot].1.rest.is_empty() && order.below(2) == 0 {
                    let (nth, mut reading) = open.remove(&slot).expect("it is open");
                    let stream = pool.stream(slot).expect("it is open");
                    stream.finish(TurnReason::Length, &mut reading.events);
                    pool.close(slot).expect("it is open");
                    told[nth] = merged(reading.events);
                }
            }
        }
        prop_assert!(pool.is_empty());
        for ((kind, ids), told) in streams.iter().zip(told) {
            let alone = read(start(entry, *kind), &[ids], TurnReason::Length);
            prop_assert_eq!(told, alone, "of {:?}", ids);
        }
        Ok(())
    });
}

/// The same, from a place on, with each stream's ids in their order: the ids of every other slot come first.
fn interleaved(given: &[(TokenId, TokenId)], turn: usize) -> Vec<(TokenId, TokenId)> {
    let is_early = |(slot, _): &&(TokenId, TokenId)| (*slot as usize + turn).is_multiple_of(2);
    let late = given.iter().filter(|id| !is_early(id));
    let (mut early, mut late) = (given.iter().filter(is_early), late);
    let mut all = Vec::with_capacity(given.len());
    while all.len() < given.len() {
        all.extend(early.next());
        all.extend(late.next());
    }
    all
}
