//! Runs a template: statements write, expressions have values.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use super::access::{attribute, is_dunder, item, missing, slice};
use super::ast::{
    Arguments, Comparison, Expr, ExprKind, For, MacroBody, Operator, Position, Statement,
    StatementKind, Symbol, Target,
};
use super::error::{Fault, Problem};
use super::functions::Function;
use super::given::Named;
use super::text::{Builder, Text};
use super::value::{Dict, Items, Missing, Outcome, Value};
use super::watch::{self, Looked};
use super::{arithmetic, filters, functions, methods, tests};

/// Deepest nesting of statements, expressions and macros that run.
const MAX_DEPTH: usize = 600;

/// Steps that a template may take, and so many more for each value of the caller's.
const STEPS: u64 = 4_000_000;
const STEPS_A_VALUE: u64 = 2_000;

/// Bytes of text that take one step to write.
const BYTES_A_STEP: u64 = 16;

/// Longest text, beside so many times what the caller gave.
const MAX_TEXT: usize = 16 << 20;
const MAX_GROWTH: usize = 64;

/// Bytes that a template writes beside what the caller gave, most often.
const CAPACITY: usize = 1 << 10;

pub(super) struct Frame {
    values: RefCell<Vec<(Symbol, Value)>>,
    parent: Option<Rc<Frame>>,
}

impl Frame {
    fn new(parent: Option<Rc<Self>>) -> Rc<Self> {
        Rc::new(Self { values: RefCell::default(), parent })
    }

    fn get(&self, symbol: Symbol) -> Option<Value> {
        self.look(symbol, |value| Some(value.clone()))
    }

    /// Looks at the value of a variable where it is.
    fn look<R>(&self, symbol: Symbol, look: impl FnOnce(&Value) -> Option<R>) -> Option<R> {
        let mut frame = self;
        loop {
            let values = frame.values.borrow();
            if let Some((_, value)) = values.iter().find(|(known, _)| *known == symbol) {
                return look(value);
            }
            frame = frame.parent.as_deref()?;
        }
    }

    pub(super) fn set(&self, symbol: Symbol, value: Value) {
        let mut values = self.values.borrow_mut();
        match values.iter_mut().find(|(known, _)| *known == symbol) {
            Some((_, known)) => *known = value,
            None => values.push((symbol, value)),
        }
    }
}

/// What can be called.
pub(super) enum Callable {
    Function(Function),
    Method(Value, Arc<str>),
    Macro {
        body: Arc<MacroBody>,
        frame: Rc<Frame>,
    },
    /// `cycler(…)`
    Cycler {
        items: Vec<Value>,
        next: Cell<usize>,
    },
    /// `joiner(…)`
    Joiner {
        separator: Value,
        is_used: Cell<bool>,
    },
}

/// The variable `loop`.
pub(super) struct Loop {
    pub(super) index: usize,
    pub(super) items: Rc<Items>,
    pub(super) depth: usize,
    /// What `loop.changed` was last given.
    last: Rc<RefCell<Option<Vec<Value>>>>,
    /// The statement of a recursive loop, by its place, and the frame around it.
    recursive: Option<(Arc<For>, Rc<Frame>)>,
}

impl Loop {
    /// `loop.changed(…)`: whether the values differ from those of the last time.
    pub(super) fn changed(&self, values: Vec<Value>) -> bool {
        let mut last = self.last.borrow_mut();
        let is_equal = |(one, other): (&Value, &Value)| one.equals(other);
        let is_same = last.as_ref().is_some_and(|last| {
            last.len() == values.len() && last.iter().zip(&values).all(is_equal)
        });
        *last = Some(values);
        !is_same
    }
}

/// How a statement ends.
#[derive(PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// What a template needs of the world.
pub(crate) struct World<'a> {
    /// `strftime_now`: the text of the time by a pattern.
    pub(crate) now: &'a dyn Fn(&str) -> Option<String>,
}

pub(super) struct Machine<'a> {
    pub(super) names: &'a [Arc<str>],
    pub(super) world: &'a World<'a>,
    out: Builder,
    /// Builders of the output around the one at hand.
    is_captured: usize,
    /// Where in the output another message begins: `(byte, message)`.
    pub(super) messages: Vec<(usize, i32)>,
    /// The message that a loop is at; -1 outside of one.
    message: i32,
    /// What `{% generation %}` blocks wrote.
    pub(super) generated: Vec<std::ops::Range<usize>>,
    steps: u64,
    max_text: usize,
    depth: usize,
    loops: usize,
    /// The variable `loop`, if the template has it.
    loop_symbol: Option<Symbol>,
    /// The first content that an operation looked at.
    pub(super) looked: Looked,
}

pub(super) type Run<T> = Result<T, Fault>;

impl<'a> Machine<'a> {
    /// A machine for so many values of the caller's, of so many bytes.
    pub(super) fn new(
        names: &'a [Arc<str>],
        world: &'a World<'a>,
        values: usize,
        bytes: usize,
    ) -> Self {
        let mut messages = Vec::with_capacity(values + 1);
        messages.push((0, -1));
        Self {
            names,
            world,
            // A value has text of the template beside it.
            out: Builder::with_capacity(bytes + CAPACITY, 2 * values),
            is_captured: 0,
            messages,
            message: -1,
            generated: Vec::new(),
            steps: STEPS + STEPS_A_VALUE * values as u64 + bytes as u64,
            max_text: MAX_TEXT + MAX_GROWTH * bytes.min(usize::MAX >> 8),
            depth: 0,
            loops: 0,
            loop_symbol: names.iter().position(|name| &**name == "loop").map(|at| at as Symbol),
            looked: None,
        }
    }

    /// Keeps what an operation looked at, if it is the first.
    pub(super) fn look(&mut self, looked: Looked) {
        if self.looked.is_none() {
            self.looked = looked;
        }
    }

    /// Looks for what an operation looked at, unless one has before.
    fn watch(&mut self, looked: impl FnOnce() -> Looked) {
        if self.looked.is_none() {
            self.looked = looked();
        }
    }

    /// A frame with the caller's variables.
    pub(super) fn frame(variables: Vec<(Symbol, Value)>) -> Rc<Frame> {
        let frame = Frame::new(None);
        *frame.values.borrow_mut() = variables;
        Frame::new(Some(frame))
    }

    pub(super) fn finish(self) -> (Builder, Vec<(usize, i32)>, Vec<std::ops::Range<usize>>) {
        (self.out, self.messages, self.generated)
    }

    /// Takes the steps that so many bytes of text cost.
    pub(super) fn charge(&mut self, bytes: usize) -> Outcome<()> {
        if bytes > self.max_text {
            let bound = self.max_text;
            return Err(Problem::Limit(format!(
                "writes a text of {bytes} bytes, expected at most {bound}"
            )));
        }
        self.take(bytes as u64 / BYTES_A_STEP)
    }

    pub(super) fn take(&mut self, steps: u64) -> Outcome<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Problem::Limit("takes more steps than any template needs".into())),
        }
    }

    fn name(&self, symbol: Symbol) -> &str {
        self.names.get(symbol as usize).map_or("", |name| name)
    }

    fn deeper<T>(&mut self, at: Position, run: impl FnOnce(&mut Self) -> Run<T>) -> Run<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::new(
                at as usize,
                Problem::Limit(format!("nests deeper than {MAX_DEPTH} while it runs")),
            ));
        }
        self.depth += 1;
        let done = run(self);
        self.depth -= 1;
        done
    }

    // Statements

    pub(super) fn run(&mut self, body: &[Statement], frame: &Rc<Frame>) -> Run<()> {
        self.body(body, frame).map(|_| ())
    }

    fn body(&mut self, body: &[Statement], frame: &Rc<Frame>) -> Run<Flow> {
        for statement in body {
            let at = statement.at as usize;
            self.take(1).map_err(|problem| Fault::new(at, problem))?;
            let flow = self.deeper(statement.at, |machine| machine.statement(statement, frame))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement, frame: &Rc<Frame>) -> Run<Flow> {
        let at = statement.at as usize;
        match &statement.kind {
            StatementKind::Text(text) => self.write(text, at)?,
            StatementKind::Print(expr) => return self.print(expr, at, frame),
            StatementKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.is_true(condition, frame)? {
                        return self.body(body, frame);
                    }
                }
                return self.body(otherwise, frame);
            }
            StatementKind::For(of) => self.for_statement(of, at, frame)?,
            StatementKind::Set(target, expr) => {
                let value = self.eval(expr, frame)?;
                self.assign(target, value, frame, at)?;
            }
            StatementKind::SetBlock(target, filter, body) => {
                let inner = Frame::new(Some(frame.clone()));
                let text = self.captured(body, &inner)?;
                let value = self.filtered(filter.as_ref(), Value::Str(text), frame)?;
                self.assign(target, value, frame, at)?;
            }
            StatementKind::Filter(filter, body) => {
                let inner = Frame::new(Some(frame.clone()));
                let text = self.captured(body, &inner)?;
                let value = self.filtered(Some(filter), Value::Str(text), &inner)?;
                let text = value.text().map_err(|problem| Fault::new(at, problem))?;
                self.write(&text, at)?;
            }
            StatementKind::Macro(body) => {
                let value = Value::Callable(Rc::new(Callable::Macro {
                    body: body.clone(),
                    frame: frame.clone(),
                }));
                let symbol = self
                    .names
                    .iter()
                    .position(|name| **name == *body.name.as_str())
                    .unwrap_or(usize::MAX);
                frame.set(symbol as Symbol, value);
            }
            StatementKind::Call(call, body) => {
                let caller = Value::Callable(Rc::new(Callable::Macro {
                    body: body.clone(),
                    frame: frame.clone(),
                }));
                let ExprKind::Call(called, arguments) = &call.kind else { return Ok(Flow::Next) };
                let called = self.eval(called, frame)?;
                let (positional, mut named) = self.arguments(arguments, frame)?;
                named.push((Text::template("caller"), caller));
                let value = self.call(&called, positional, named, call.at)?;
                let text = value.text().map_err(|problem| Fault::new(at, problem))?;
                self.write(&text, at)?;
            }
            StatementKind::With(values, body) => {
                let inner = Frame::new(Some(frame.clone()));
                for (target, expr) in values {
                    let value = self.eval(expr, frame)?;
                    self.assign(target, value, &inner, at)?;
                }
                return self.body(body, &inner);
            }
            StatementKind::Generation(body) => {
                let start = self.out.len();
                let flow = self.body(body, &Frame::new(Some(frame.clone())))?;
                if self.is_captured == 0 {
                    self.generated.push(start..self.out.len());
                }
                return Ok(flow);
            }
            StatementKind::Block(body) => return self.body(body, &Frame::new(Some(frame.clone()))),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, text: &Text, at: usize) -> Run<()> {
        if self.out.len() + text.len() > self.max_text {
            let (bytes, most) = (self.out.len() + text.len(), self.max_text);
            let problem = format!("writes a text of {bytes} bytes, expected at most {most}");
            let problem = Problem::Limit(problem);
            return Err(Fault::new(at, problem));
        }
        self.charge(text.len()).map_err(|problem| Fault::new(at, problem))?;
        if self.is_captured == 0 && self.messages.last().is_none_or(|last| last.1 != self.message) {
            self.messages.push((self.out.len(), self.message));
        }
        self.out.push_text(text);
        Ok(())
    }

    /// What a body writes, as a text.
    fn captured(&mut self, body: &[Statement], frame: &Rc<Frame>) -> Run<Text> {
        self.capturing(|machine| machine.body(body, frame)).map(|(_, text)| text)
    }

    /// Runs with an output of its own, and gives what was written beside the result.
    fn capturing<T>(&mut self, run: impl FnOnce(&mut Self) -> Run<T>) -> Run<(T, Text)> {
        let around = std::mem::take(&mut self.out);
        self.is_captured += 1;
        let done = run(self);
        self.is_captured -= 1;
        let written = std::mem::replace(&mut self.out, around);
        Ok((done?, written.finish()))
    }

    fn filtered(&mut self, filter: Option<&Expr>, input: Value, frame: &Rc<Frame>) -> Run<Value> {
        let Some(Expr { at, kind: ExprKind::Filter(before, name, arguments), .. }) = filter else {
            return Ok(input);
        };
        let input = self.filtered(before.as_deref(), input, frame)?;
        let (positional, named) = self.arguments(arguments, frame)?;
        let done = filters::apply(self, name, input, positional, named);
        done.map_err(|problem| Fault::new(*at as usize, problem))
    }

    fn assign(&mut self, target: &Target, value: Value, frame: &Rc<Frame>, at: usize) -> Run<()> {
        match target {
            Target::Name(symbol) => {
                if self.loops > 0
                    && let Value::Dict(dict) = &value
                    && let Some(message) = dict.message
                {
                    self.message = message as i32;
                }
                frame.set(*symbol, value);
            }
            Target::Attribute(symbol, attribute) => {
                let Some(Value::Namespace(members)) = frame.get(*symbol) else {
                    let problem = format!(
                        "`{}` is no namespace, whose attributes alone can be set",
                        self.name(*symbol)
                    );
                    return Err(Fault::new(at, Problem::value(problem)));
                };
                let mut members = members.borrow_mut();
                match members.iter_mut().find(|(known, _)| known.as_str() == attribute.as_str()) {
                    Some((_, known)) => *known = value,
                    None => members.push((attribute.clone(), value)),
                }
            }
            Target::Tuple(targets) => {
                value.check().map_err(|problem| Fault::new(at, problem))?;
                self.watch(|| watch::iteration(&value));
                let items = value.iterate().map_err(|problem| Fault::new(at, problem))?;
                if items.len() != targets.len() {
                    let problem = format!("has {} values, expected {}", items.len(), targets.len());
                    return Err(Fault::new(at, Problem::value(problem)));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, item, frame, at)?;
                }
            }
        }
        Ok(())
    }

    fn for_statement(&mut self, of: &Arc<For>, at: usize, frame: &Rc<Frame>) -> Run<()> {
        let list = self.eval(&of.list, frame)?;
        self.iterate(of, &list, at, frame, 0)
    }

    fn iterate(
        &mut self,
        of: &Arc<For>,
        list: &Value,
        at: usize,
        frame: &Rc<Frame>,
        depth: usize,
    ) -> Run<()> {
        self.watch(|| watch::iteration(list));
        let mut items = list.items().map_err(|problem| Fault::new(at, problem))?;
        if let Some(condition) = &of.condition {
            let mut kept = Vec::with_capacity(items.len());
            for item in items.iter() {
                self.take(1).map_err(|problem| Fault::new(at, problem))?;
                let inner = Frame::new(Some(frame.clone()));
                self.assign(&of.target, item.clone(), &inner, at)?;
                if self.is_true(condition, &inner)? {
                    kept.push(item.clone());
                }
            }
            items = Items::Own(kept);
        }
        if items.is_empty() {
            return self.body(&of.otherwise, &Frame::new(Some(frame.clone()))).map(|_| ());
        }
        let items = Rc::new(items);
        let last = Rc::new(RefCell::new(None));
        let symbol = self.loop_symbol.filter(|_| of.has_loop);
        let variable = |index| Loop {
            index,
            items: items.clone(),
            depth,
            last: last.clone(),
            recursive: of.is_recursive.then(|| (of.clone(), frame.clone())),
        };
        let mut this: Option<Rc<Loop>> = None;
        let message = self.message;
        self.loops += 1;
        let mut inner = Frame::new(Some(frame.clone()));
        for (index, item) in items.iter().enumerate() {
            self.take(2).map_err(|problem| Fault::new(at, problem))?;
            // A macro may have kept the frame of an item.
            if Rc::strong_count(&inner) == 1 {
                inner.values.borrow_mut().clear();
            } else {
                inner = Frame::new(Some(frame.clone()));
            }
            if let Some(symbol) = symbol {
                match this.as_mut().and_then(Rc::get_mut) {
                    Some(this) => this.index = index,
                    // The first item, or the variable was kept.
                    None => this = Some(Rc::new(variable(index))),
                }
                if let Some(this) = &this {
                    inner.set(symbol, Value::Loop(this.clone()));
                }
            }
            self.assign(&of.target, item.clone(), &inner, at)?;
            let flow = self.body(&of.body, &inner);
            self.message = message;
            if flow? == Flow::Break {
                break;
            }
        }
        self.loops -= 1;
        Ok(())
    }

    // Expressions

    pub(super) fn eval(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<Value> {
        match &expr.kind {
            ExprKind::None => Ok(Value::None),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Int(value) => Ok(Value::int(*value)),
            ExprKind::Float(value) => Ok(Value::Float(*value, super::text::Origin::TEMPLATE)),
            ExprKind::Str(text) => Ok(Value::Str(text.clone())),
            ExprKind::Name(symbol) => Ok(self.variable(*symbol, frame)),
            _ => {
                self.take(1).map_err(|problem| Fault::new(expr.at as usize, problem))?;
                if let Some(value) = Self::peek(expr, frame, Value::clone) {
                    return Ok(value);
                }
                self.deeper(expr.at, |machine| machine.operation(expr, frame))
            }
        }
    }

    /// Looks at the value of a variable, or of a variable's member, without a copy of it. `None` where it has
    /// to be evaluated.
    fn peek<R>(expr: &Expr, frame: &Frame, look: impl FnOnce(&Value) -> R) -> Option<R> {
        match &expr.kind {
            ExprKind::Name(symbol) => frame.look(*symbol, |value| Some(look(value))),
            ExprKind::Attribute(object, name) => {
                let ExprKind::Name(symbol) = object.kind else { return None };
                frame.look(symbol, |object| match object {
                    _ if is_dunder(name) || methods::has(object, name) => None,
                    // A name that the caller chose may be found.
                    Value::Dict(dict) if dict.has_content => None,
                    Value::Dict(dict) => Some(match dict.get_str(name) {
                        Some(value) => look(value),
                        None => look(&missing(object, name)),
                    }),
                    Value::Namespace(members) => {
                        let members = members.borrow();
                        let member = members.iter().find(|(known, _)| *known.as_str() == **name);
                        member.map(|(_, value)| look(value))
                    }
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// Whether the value of a condition is true. Unlike `eval`, it copies no value that is only compared or tested.
    fn is_true(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<bool> {
        self.take(1).map_err(|problem| Fault::new(expr.at as usize, problem))?;
        if let Some(is_true) = Self::peek(expr, frame, Value::is_true) {
            return Ok(is_true);
        }
        self.deeper(expr.at, |machine| match &expr.kind {
            ExprKind::Not(inner) => Ok(!machine.is_true(inner, frame)?),
            ExprKind::And(left, right) => {
                Ok(machine.is_true(left, frame)? && machine.is_true(right, frame)?)
            }
            ExprKind::Or(left, right) => {
                Ok(machine.is_true(left, frame)? || machine.is_true(right, frame)?)
            }
            ExprKind::Compare(left, others) => machine.compared(expr.at, left, others, frame),
            ExprKind::Test(input, name, arguments) => {
                machine.tested(expr.at, input, name, arguments, frame)
            }
            _ => Ok(machine.eval(expr, frame)?.is_true()),
        })
    }

    fn compared(
        &mut self,
        at: Position,
        first: &Expr,
        others: &[(Comparison, Expr)],
        frame: &Rc<Frame>,
    ) -> Run<bool> {
        if let [(comparison @ (Comparison::Equal | Comparison::NotEqual), right)] = others
            && let ExprKind::Str(literal) = &right.kind
            && let Some((is_equal, looked)) = Self::peek(first, frame, |value| match value {
                Value::Str(text) => {
                    (text.as_str() == literal.as_str(), watch::equal_texts(text, literal))
                }
                _ => (false, None),
            })
        {
            self.look(looked);
            return Ok(is_equal == (*comparison == Comparison::Equal));
        }
        let mut left = self.eval(first, frame)?;
        for (comparison, right) in others {
            let right = self.eval(right, frame)?;
            let holds = compare(&left, *comparison, &right);
            let holds = holds.map_err(|problem| Fault::new(at as usize, problem))?;
            self.watch(|| watch::comparison(&left, *comparison, &right, holds));
            if !holds {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn tested(
        &mut self,
        at: Position,
        input: &Expr,
        name: &str,
        arguments: &Arguments,
        frame: &Rc<Frame>,
    ) -> Run<bool> {
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        if arguments.positional.is_empty()
            && arguments.is_plain()
            && let Some((holds, looked)) = Self::peek(input, frame, |value| {
                (tests::apply(name, value, &[], &[]), watch::test(name, value, &[], false))
            })
        {
            self.look(looked);
            return holds.map_err(fault);
        }
        let input = self.eval(input, frame)?;
        let (positional, named) = self.arguments(arguments, frame)?;
        let holds = tests::apply(name, &input, &positional, &named).map_err(fault)?;
        self.watch(|| watch::test(name, &input, &positional, holds));
        Ok(holds)
    }

    fn variable(&self, symbol: Symbol, frame: &Rc<Frame>) -> Value {
        frame.get(symbol).unwrap_or_else(|| {
            functions::global(self.name(symbol)).unwrap_or_else(|| {
                let name = self.names.get(symbol as usize).cloned();
                Value::Undefined(Missing::Variable(name.unwrap_or_default()))
            })
        })
    }

    fn all(&mut self, exprs: &[Expr], frame: &Rc<Frame>) -> Run<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr, frame)).collect()
    }

    fn operation(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<Value> {
        let at = expr.at;
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        match &expr.kind {
            ExprKind::List(items) => Ok(Value::list(self.all(items, frame)?)),
            ExprKind::Tuple(items) => Ok(Value::tuple(self.all(items, frame)?)),
            ExprKind::Dict(members) => {
                let mut dict = Vec::with_capacity(members.len());
                for (key, value) in members {
                    let key = self.eval(key, frame)?;
                    key.check_hashable().map_err(fault)?;
                    dict.push((key, self.eval(value, frame)?));
                }
                let given = dict.len();
                let dict = Dict::new(dict, super::text::Origin::TEMPLATE);
                let dict = Value::Dict(Rc::new(dict));
                self.watch(|| watch::dict(given, &dict));
                Ok(dict)
            }
            ExprKind::Attribute(object, name) => {
                let object = self.eval(object, frame)?;
                self.watch(|| watch::attribute(&object, name));
                attribute(&object, name).map_err(fault)
            }
            ExprKind::Item(object, index) => {
                let object = self.eval(object, frame)?;
                let index = self.eval(index, frame)?;
                let found = item(&object, &index).map_err(fault)?;
                self.watch(|| watch::item(&object, &index, &found));
                Ok(found)
            }
            ExprKind::Slice(object, bounds) => {
                let object = self.eval(object, frame)?;
                let mut parts = [None, None, None];
                for (part, bound) in parts.iter_mut().zip(bounds) {
                    if let Some(bound) = bound {
                        *part = Some(self.eval(bound, frame)?);
                    }
                }
                self.watch(|| watch::slice(&object, &parts));
                slice(&object, &parts).map_err(fault)
            }
            ExprKind::Call(called, arguments) => {
                if let ExprKind::Attribute(object, name) = &called.kind {
                    return self.call_attribute(called.at, object, name, arguments, at, frame);
                }
                let called_value = self.eval(called, frame)?;
                let (positional, named) = self.arguments(arguments, frame)?;
                self.call(&called_value, positional, named, at)
            }
            ExprKind::Filter(input, name, arguments) => {
                let input = match input {
                    Some(input) => self.eval(input, frame)?,
                    None => Value::None,
                };
                let (positional, named) = self.arguments(arguments, frame)?;
                filters::apply(self, name, input, positional, named).map_err(fault)
            }
            ExprKind::Test(input, name, arguments) => {
                self.tested(at, input, name, arguments, frame).map(Value::Bool)
            }
            ExprKind::Not(inner) => Ok(Value::Bool(!self.is_true(inner, frame)?)),
            ExprKind::And(left, right) => {
                let left = self.eval(left, frame)?;
                if left.is_true() { self.eval(right, frame) } else { Ok(left) }
            }
            ExprKind::Or(left, right) => {
                let left = self.eval(left, frame)?;
                if left.is_true() { Ok(left) } else { self.eval(right, frame) }
            }
            ExprKind::If(condition, value, otherwise) => {
                if self.is_true(condition, frame)? {
                    return self.eval(value, frame);
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise, frame),
                    None => Ok(Value::undefined(
                        "the inline if-expression has no `else`, and its condition is false",
                    )),
                }
            }
            ExprKind::Compare(first, others) => {
                self.compared(at, first, others, frame).map(Value::Bool)
            }
            ExprKind::Negative(inner) => {
                let value = self.eval(inner, frame)?;
                self.watch(|| watch::content(&value));
                arithmetic::negative(&value).map_err(fault)
            }
            ExprKind::Positive(inner) => {
                let value = self.eval(inner, frame)?;
                self.watch(|| watch::content(&value));
                arithmetic::positive(&value).map_err(fault)
            }
            ExprKind::Arithmetic(_, Operator::Add, _) => self.sum(expr, frame),
            ExprKind::Arithmetic(left, operator, right) => {
                self.arithmetic(left, *operator, right, frame)
            }
            ExprKind::Concat(parts) => self.concat(parts, at, frame),
            // The rest are values by themselves.
            _ => Ok(Value::None),
        }
    }

    /// `object.name(…)`: a method of strings, dicts and lists is called without a value of its own.
    fn call_attribute(
        &mut self,
        object_at: Position,
        object: &Expr,
        name: &Arc<str>,
        arguments: &Arguments,
        at: Position,
        frame: &Rc<Frame>,
    ) -> Run<Value> {
        self.take(1).map_err(|problem| Fault::new(object_at as usize, problem))?;
        let object = self.eval(object, frame)?;
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        if matches!(object, Value::Str(_) | Value::Dict(_) | Value::List(_))
            && methods::has(&object, name)
        {
            let (positional, named) = self.arguments(arguments, frame)?;
            return methods::call(self, &object, name, positional, named).map_err(fault);
        }
        let called =
            attribute(&object, name).map_err(|problem| Fault::new(object_at as usize, problem))?;
        let (positional, named) = self.arguments(arguments, frame)?;
        self.call(&called, positional, named, at)
    }

    fn sum(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<Value> {
        let at = match &expr.kind {
            ExprKind::Arithmetic(left, ..) => left.at as usize,
            _ => expr.at as usize,
        };
        let (sum, text) = self.capturing(|machine| machine.written_sum(expr, 0, at, frame))?;
        Ok(sum.unwrap_or(Value::Str(text)))
    }

    /// Writes a value. Plain strings, and those of a sum, are written one by one, without a copy of them.
    fn print(&mut self, expr: &Expr, at: usize, frame: &Rc<Frame>) -> Run<Flow> {
        let start = self.out.len();
        if let Some(value) = self.written_sum(expr, start, at, frame)? {
            let text = value.text().map_err(|problem| Fault::new(at, problem))?;
            self.write(&text, at)?;
        }
        Ok(Flow::Next)
    }

    /// Writes a sum of plain strings. The value of the sum where one is something else; then nothing of it is
    /// written.
    fn written_sum(
        &mut self,
        expr: &Expr,
        start: usize,
        at: usize,
        frame: &Rc<Frame>,
    ) -> Run<Option<Value>> {
        let ExprKind::Arithmetic(left, Operator::Add, right) = &expr.kind else {
            return self.written_string(expr, at, frame);
        };
        let fault = |problem: Problem| Fault::new(left.at as usize, problem);
        self.take(1).map_err(fault)?;
        let sum = self.deeper(expr.at, |machine| machine.written_sum(left, start, at, frame))?;
        let (sum, other) = match sum {
            None => match self.written_string(right, at, frame)? {
                None => return Ok(None),
                Some(other) => (Value::Str(self.out.split_off(start)), other),
            },
            Some(sum) => (sum, self.eval(right, frame)?),
        };
        self.watch(|| watch::arithmetic(&sum, Operator::Add, &other));
        let sum = arithmetic::apply(self, &sum, Operator::Add, &other);
        sum.map(Some).map_err(|problem| Fault::new(left.at as usize, problem))
    }

    /// Writes a plain string; gives any other value.
    fn written_string(&mut self, expr: &Expr, at: usize, frame: &Rc<Frame>) -> Run<Option<Value>> {
        if let ExprKind::Str(text) = &expr.kind {
            return self.write(text, at).map(|()| None);
        }
        let written = Self::peek(expr, frame, |value| match value {
            Value::Str(text) if !text.is_markup => Some(self.write(text, at)),
            _ => None,
        });
        if let Some(Some(written)) = written {
            return written.map(|()| None);
        }
        let value = self.eval(expr, frame)?;
        match &value {
            Value::Str(text) if !text.is_markup => self.write(text, at).map(|()| None),
            _ => Ok(Some(value)),
        }
    }

    /// `a ~ b`: the texts of values, one after another.
    fn concat(&mut self, parts: &[Expr], at: Position, frame: &Rc<Frame>) -> Run<Value> {
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        let mut joined = Builder::default();
        for part in parts {
            let text = self.eval(part, frame)?.text().map_err(fault)?;
            self.charge(joined.len() + text.len()).map_err(fault)?;
            joined.push_text(&text);
        }
        Ok(Value::Str(joined.finish()))
    }

    fn arithmetic(
        &mut self,
        left: &Expr,
        operator: Operator,
        right: &Expr,
        frame: &Rc<Frame>,
    ) -> Run<Value> {
        let at = left.at as usize;
        let left = self.eval(left, frame)?;
        let right = self.eval(right, frame)?;
        self.watch(|| watch::arithmetic(&left, operator, &right));
        arithmetic::apply(self, &left, operator, &right).map_err(|problem| Fault::new(at, problem))
    }

    #[allow(
        clippy::type_complexity,
        reason = "positional and named arguments, as every call has them"
    )]
    fn arguments(&mut self, arguments: &Arguments, frame: &Rc<Frame>) -> Run<(Vec<Value>, Named)> {
        let mut positional = self.all(&arguments.positional, frame)?;
        let mut named = Vec::with_capacity(arguments.named.len());
        for (name, value) in &arguments.named {
            named.push((name.clone(), self.eval(value, frame)?));
        }
        if let Some(list) = &arguments.list {
            let at = list.at as usize;
            let list = self.eval(list, frame)?;
            self.watch(|| watch::iteration(&list));
            positional.extend(list.iterate().map_err(|problem| Fault::new(at, problem))?);
        }
        if let Some(dict) = &arguments.dict {
            let at = dict.at as usize;
            let dict = self.eval(dict, frame)?;
            self.watch(|| watch::names(&dict));
            match dict {
                Value::Dict(dict) => {
                    named.extend(dict.members.iter().filter_map(|(key, value)| match key {
                        Value::Str(name) => Some((name.clone(), value.clone())),
                        _ => None,
                    }));
                }
                other => {
                    let problem = format!("`**` has `{}`, expected a dict", other.kind());
                    return Err(Fault::new(at, Problem::value(problem)));
                }
            }
        }
        Ok((positional, named))
    }

    pub(super) fn call(
        &mut self,
        called: &Value,
        positional: Vec<Value>,
        named: Named,
        at: Position,
    ) -> Run<Value> {
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        match called {
            Value::Callable(callable) => match &**callable {
                Callable::Function(function) => {
                    self.watch(|| watch::function(*function, &positional, &named));
                    functions::call(self, *function, positional, named).map_err(fault)
                }
                Callable::Method(object, name) => {
                    methods::call(self, object, name, positional, named).map_err(fault)
                }
                Callable::Macro { body, frame } => {
                    self.call_macro(body, frame, positional, named, at)
                }
                Callable::Cycler { items, next } => {
                    let value = items.get(next.get()).cloned();
                    next.set((next.get() + 1) % items.len().max(1));
                    Ok(value.unwrap_or(Value::None))
                }
                Callable::Joiner { separator, is_used } => {
                    Ok(if is_used.replace(true) { separator.clone() } else { Value::str("") })
                }
            },
            Value::Loop(of) => {
                let Some((of_loop, frame)) = &of.recursive else {
                    return Err(fault(Problem::value(
                        "`loop` is called, expected a loop marked `recursive`",
                    )));
                };
                let list = positional.first().cloned().unwrap_or(Value::None);
                let (of, frame, depth) = (of_loop.clone(), frame.clone(), of.depth + 1);
                self.deeper(at, |machine| machine.recurse(&of, &list, at, &frame, depth))
                    .map(Value::Str)
            }
            Value::Undefined(missing) => Err(fault(Problem::value(missing.problem()))),
            other => Err(fault(Problem::value(format!("`{}` cannot be called", other.kind())))),
        }
    }

    /// What a loop writes of another list: `loop(list)`.
    fn recurse(
        &mut self,
        of: &Arc<For>,
        list: &Value,
        at: Position,
        frame: &Rc<Frame>,
        depth: usize,
    ) -> Run<Text> {
        let iterate = |machine: &mut Self| machine.iterate(of, list, at as usize, frame, depth);
        self.capturing(iterate).map(|((), text)| text)
    }

    fn call_macro(
        &mut self,
        body: &Arc<MacroBody>,
        frame: &Rc<Frame>,
        positional: Vec<Value>,
        named: Named,
        at: Position,
    ) -> Run<Value> {
        let fault = |problem: String| Fault::new(at as usize, Problem::value(problem));
        let inner = Frame::new(Some(frame.clone()));
        let [takes_varargs, takes_kwargs, takes_caller] = body.uses;
        let mut named = named;
        let mut given = positional.into_iter();
        for (symbol, default) in &body.parameters {
            let name = self.name(*symbol).to_owned();
            let by_name = named.iter().position(|(known, _)| *known.as_str() == *name);
            let value = match (given.next(), by_name) {
                (Some(_), Some(_)) => {
                    return Err(fault(format!(
                        "macro `{}` has `{name}` given twice",
                        body.name.as_str()
                    )));
                }
                (Some(value), None) => Some(value),
                (None, Some(at)) => Some(named.remove(at).1),
                (None, None) => None,
            };
            let value = match (value, default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default, &inner)?,
                (None, None) => Value::undefined(format!("parameter `{name}` was not provided")),
            };
            inner.set(*symbol, value);
        }
        let rest: Vec<Value> = given.collect();
        let symbol =
            |machine: &Self, name: &str| machine.names.iter().position(|known| &**known == name);
        if takes_caller {
            let at = named.iter().position(|(name, _)| name.as_str() == "caller");
            let caller =
                at.map_or_else(|| Value::undefined("no caller defined"), |at| named.remove(at).1);
            if let Some(symbol) = symbol(self, "caller") {
                inner.set(symbol as Symbol, caller);
            }
        }
        if takes_varargs {
            if let Some(symbol) = symbol(self, "varargs") {
                inner.set(symbol as Symbol, Value::tuple(rest));
            }
        } else if !rest.is_empty() {
            let (name, most) = (body.name.as_str(), body.parameters.len());
            return Err(fault(format!(
                "macro `{name}` takes at most {most} arguments, found {}",
                most + rest.len()
            )));
        }
        if takes_kwargs {
            if let Some(symbol) = symbol(self, "kwargs") {
                let members = named.into_iter().map(|(name, value)| (Value::Str(name), value));
                let dict = Dict::new(members, super::text::Origin::TEMPLATE);
                inner.set(symbol as Symbol, Value::Dict(Rc::new(dict)));
            }
        } else if let Some((extra, _)) = named.first() {
            return Err(fault(format!(
                "macro `{}` has no parameter `{}`",
                body.name.as_str(),
                extra.as_str()
            )));
        }
        let loops = std::mem::take(&mut self.loops);
        let text = self.deeper(at, |machine| machine.captured(&body.body, &inner));
        self.loops = loops;
        Ok(Value::Str(text?))
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Outcome<bool> {
    let ordered =
        |sign: &str, holds: fn(Ordering) -> bool| Ok(left.compare(right, sign)?.is_some_and(holds));
    match comparison {
        Comparison::Equal => Ok(left.equals(right)),
        Comparison::NotEqual => Ok(!left.equals(right)),
        Comparison::Less => ordered("<", Ordering::is_lt),
        Comparison::LessOrEqual => ordered("<=", Ordering::is_le),
        Comparison::Greater => ordered(">", Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(">=", Ordering::is_ge),
        Comparison::In => left.is_in(right),
        Comparison::NotIn => Ok(!left.is_in(right)?),
    }
}
