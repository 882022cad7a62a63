//! Links results to calls: calls get their ids, and results the kind and id of their call.

use hashbrown::HashMap;

use crate::format::{Format, IdForm, Refused};
use crate::message::{CallBody, Message, Role, call_id};

/// Gives calls their ids, and results the kind and id of the call that they answer.
///
/// If the format writes no ids, calls are numbered through the conversation, and results answer the
/// calls of the last message with calls, in order. A result without a kind of the format takes the
/// kind of the call that its id refers to, or else of the call that it answers by order.
pub(crate) fn link(messages: &mut [Message], format: &Format) -> Linker {
    let mut linker = Linker::default();
    linker.link(messages, format);
    linker
}

/// The calls that later messages may refer to. Most conversations have no calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Linker(Option<Box<Links>>);

#[derive(Debug, Clone, Default)]
struct Links {
    made: Vec<Made>,
    open: Open,
    by_given: HashMap<String, usize>,
    answered: usize,
    number: usize,
}

#[derive(Debug, Clone)]
struct Made {
    id: String,
    kind: Option<String>,
    /// The author of the call's result.
    name: Option<String>,
    is_answered: bool,
}

impl Linker {
    /// [`link`] for messages that follow the messages linked so far.
    pub(crate) fn link(&mut self, messages: &mut [Message], format: &Format) {
        if messages.iter().any(|message| !message.calls.is_empty() || message.role == Role::Tool) {
            self.0.get_or_insert_default().link(messages, format);
        }
    }
}

impl Links {
    fn link(&mut self, messages: &mut [Message], format: &Format) {
        let writes_ids = format.writes_ids();
        let has_kinds = !format.names_of(Role::Tool).is_empty();
        let has_names = format.names_results();
        let refuses_names = format.refused().contains(&Refused::NamedResults);
        let Self { made, open, by_given, answered, number } = self;
        for message in messages {
            if !message.calls.is_empty() {
                made.clear();
                open.clear();
                by_given.clear();
                *answered = 0;
                for (nth, call) in message.calls.iter_mut().enumerate() {
                    // Nine letters and digits, as formats that write ids expect.
                    let own =
                        if writes_ids { format!("call{number:05}") } else { call_id(*number) };
                    *number += 1;
                    let given = call.id.take();
                    let name = match &call.body {
                        CallBody::Function { name, .. } => name,
                        CallBody::Code { .. } => "",
                    };
                    let fitted = format.id_form().fit(given.as_deref(), name, *number - 1);
                    let id = fitted.filter(|_| writes_ids).unwrap_or(own);
                    call.id = Some(id.clone());
                    // `parse` numbers a call that has no id yet, such as one that was cut.
                    let numbered = || writes_ids.then(|| call_id(nth));
                    if let Some(given) = given.or_else(numbered) {
                        by_given.entry(given).or_insert(made.len());
                    }
                    let kind = format.call_kind(&call.body).map(str::to_owned);
                    let name = has_names.then(|| format.answerer(&call.body)).flatten();
                    let function = match &call.body {
                        CallBody::Function { name, .. } => Some(name),
                        CallBody::Code { .. } => None,
                    };
                    if has_names {
                        open.push(made.len(), name.as_ref(), function);
                    }
                    made.push(Made { id, kind, name, is_answered: false });
                }
            } else if message.role == Role::Tool && has_names {
                answer_by_name(message, made, open, by_given);
            } else if message.role == Role::Tool {
                let by_id = message.call_id.as_ref().and_then(|id| by_given.get(id));
                let by_order = made.get(*answered);
                let answers = by_id.map(|&at| &made[at]).or(by_order);
                let kind = answers.and_then(|made| made.kind.clone());
                if !has_kinds {
                    // A name that is refused stays until it is.
                    message.name.take_if(|_| !refuses_names);
                } else if !message
                    .name
                    .as_ref()
                    .is_some_and(|name| format.is_named(name, Role::Tool))
                {
                    let kind = kind.or_else(|| format.default_kind().map(str::to_owned));
                    message.name = kind.or(message.name.take());
                }
                message.call_id = match message.call_id.take().filter(|_| writes_ids) {
                    None => by_order.map(|made| made.id.clone()),
                    Some(given) => match by_id {
                        Some(&at) => Some(made[at].id.clone()),
                        None if *format.id_form() == IdForm::Numbered => {
                            let by_order = by_order.map(|made| made.id.clone());
                            by_order.or_else(|| IdForm::Numbered.fit(Some(&given), "", 0))
                        }
                        None if !format.id_form().has_name() => {
                            format.id_form().fit(Some(&given), "", 0)
                        }
                        None if format.id_form().name(&given) == given => {
                            by_order.map(|made| made.id.clone()).or(Some(given))
                        }
                        None => Some(given),
                    },
                };
                *answered += 1;
            }
        }
    }
}

/// The calls without a result, indexed by the names that a result may use.
#[derive(Debug, Clone, Default)]
struct Open {
    /// For each answering name, its calls in order, and the number of calls with a result.
    by_name: HashMap<String, (Vec<usize>, usize)>,
    /// The first call of each function.
    by_function: HashMap<String, usize>,
    /// All calls before this index have a result.
    first: usize,
}

impl Open {
    fn clear(&mut self) {
        self.by_name.clear();
        self.by_function.clear();
        self.first = 0;
    }

    fn push(&mut self, at: usize, name: Option<&String>, function: Option<&String>) {
        if let Some(name) = name {
            self.by_name.entry_ref(name).or_default().0.push(at);
        }
        if let Some(function) = function {
            self.by_function.entry_ref(function).or_insert(at);
        }
    }

    /// The first call without a result.
    fn first(&mut self, made: &[Made]) -> Option<usize> {
        while made.get(self.first)?.is_answered {
            self.first += 1;
        }
        Some(self.first)
    }

    /// The first call of a name without a result; marks the call as answered.
    fn answer(&mut self, name: &str) -> Option<usize> {
        let (calls, answered) = self.by_name.get_mut(name)?;
        let at = *calls.get(*answered)?;
        *answered += 1;
        Some(at)
    }
}

/// Gives a result the name that answers its call: the call of its id, or else the first call without a result,
/// preferably of its name or of the function that it names. Only the name is written, so the name identifies
/// the call.
fn answer_by_name(
    message: &mut Message,
    made: &mut [Made],
    open: &mut Open,
    by_given: &HashMap<String, usize>,
) {
    let by_id = message.call_id.take().and_then(|id| by_given.get(&id));
    let given = message.name.take();
    message.name = match (by_id, given) {
        (Some(&at), given) => made[at].name.clone().or(given),
        (None, Some(given)) => {
            let is_known = open.by_name.contains_key(&given);
            let of_function = open.by_function.get(&given).filter(|_| !is_known);
            of_function.and_then(|&at| made[at].name.clone()).or(Some(given))
        }
        (None, None) => open.first(made).and_then(|at| made[at].name.clone()),
    };
    if let Some(at) = message.name.as_ref().and_then(|name| open.answer(name)) {
        made[at].is_answered = true;
        message.call_id = Some(made[at].id.clone());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Call;

    /// Results that answer by name, with a linear search for each call.
    fn naive(messages: &mut [Message], format: &Format) {
        let mut calls: Vec<(Call, bool)> = Vec::new();
        let mut number = 0;
        for message in messages {
            if !message.calls.is_empty() {
                calls = message.calls.iter().map(|call| (call.clone(), false)).collect();
                for call in &mut message.calls {
                    call.id = Some(format!("call_{number}"));
                    number += 1;
                }
                continue;
            }
            if message.role != Role::Tool {
                continue;
            }
            let name = |call: &Call| format.answerer(&call.body);
            let given = message.name.take();
            let id = message.call_id.take();
            let by_id = calls.iter().find(|(call, _)| id.is_some() && call.id == id);
            let of_function = calls.iter().find(|(call, _)| match &call.body {
                CallBody::Function { name, .. } => Some(name) == given.as_ref(),
                CallBody::Code { .. } => false,
            });
            let is_known = calls.iter().any(|(call, _)| given.is_some() && name(call) == given);
            message.name = match (by_id, of_function) {
                (Some((call, _)), _) => name(call).or(given),
                (None, Some((call, _))) if !is_known => name(call),
                _ if given.is_some() => given,
                _ => calls.iter().find(|(_, answered)| !answered).and_then(|(call, _)| name(call)),
            };
            let first = number - calls.len();
            let answered = calls.iter().position(|(call, answered)| {
                !answered && message.name.is_some() && name(call) == message.name
            });
            if let Some(at) = answered {
                calls[at].1 = true;
                message.call_id = Some(format!("call_{}", first + at));
            }
        }
    }

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let word = |words: &'static [&'static str]| {
            prop::option::of(prop::sample::select(words).prop_map(str::to_owned))
        };
        let function = prop::sample::select(vec!["f", "g", "functions.f"]).prop_map(|name| {
            CallBody::Function { name: name.to_owned(), arguments: "{}".to_owned() }
        });
        let code = word(&["python", "f"])
            .prop_map(|language| CallBody::Code { language, source: "x".to_owned() });
        let call = (word(&["a", "b"]), prop_oneof![3 => function, 1 => code])
            .prop_map(|(id, body)| Call { id, body });
        let calling = prop::collection::vec(call, 1..5)
            .prop_map(|calls| Message { calls, ..Message::new(Role::Assistant, "") });
        let names = &["f", "g", "functions.f", "python", "other"];
        let result = (word(names), word(&["a", "b", "c"])).prop_map(|(name, call_id)| Message {
            name,
            call_id,
            ..Message::new(Role::Tool, "x")
        });
        prop::collection::vec(prop_oneof![1 => calling, 4 => result], 0..12)
    }

    proptest! {
        #[test]
        fn results_answer_by_name_as_looked_up_one_by_one(messages in messages()) {
            let format = Format::built_in("harmony").expect("it is built in");
            assert!(format.names_results() && !format.writes_ids());
            let (mut linked, mut expected) = (messages.clone(), messages);
            link(&mut linked, &format);
            naive(&mut expected, &format);
            prop_assert_eq!(linked, expected);
        }
    }
}
