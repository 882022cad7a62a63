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
use super::frame::Frame;
use super::functions::Function;
use super::given::Named;
use super::meter::Meter;
use super::premises::Notes;
use super::text::{Builder, Origin, Text};
use super::value::{Dict, Items, List, Missing, Outcome, Value};
use super::watch::{self, Looked};
use super::{arithmetic, filters, functions, methods, tests};

/// Deepest nesting of statements, expressions and macros that run.
const MAX_DEPTH: usize = 600;

/// The memory of a frame without its variables, in values.
const FRAME_VALUES: usize = 2;

/// Runs that stand for one of the output: what follows a rendering keeps several parts for each.
const OUTPUT_RUNS: usize = 4;

/// Frames, and bytes of a name, that a step looks through.
const FRAMES_A_STEP: u64 = 8;
const NAME_A_STEP: usize = 64;

/// Steps of a call, beside those of its arguments.
pub(super) const CALL_STEPS: u64 = 4;

/// Bytes that a template writes beside what the caller gave, most often.
const CAPACITY: usize = 1 << 10;

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
    /// What `loop.changed` was last given: its place in what the machine keeps.
    last: Rc<Cell<Option<usize>>>,
    /// The statement of a recursive loop, by its place, and the frame around it.
    recursive: Option<(Arc<For>, Rc<Frame>)>,
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

/// Start, stop and step of a range, and where they come from.
pub(super) type Asked = (i64, i64, i64, Origin);

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
    pub(super) meter: Meter,
    kept: Kept,
    /// The range that was made last, with its start, stop and step.
    pub(super) last_range: Option<(Asked, Rc<List>)>,
    depth: usize,
    loops: usize,
    symbols: Symbols,
    /// The first content that an operation looked at.
    pub(super) looked: Looked,
    /// What operations that do not look take for granted, if that is asked for.
    pub(super) notes: Option<Notes>,
}

/// The variables that the language has, if the template names them.
struct Symbols {
    of_loop: Option<Symbol>,
    caller: Option<Symbol>,
    varargs: Option<Symbol>,
    kwargs: Option<Symbol>,
}

/// What values refer to and can change: it may hold values that refer to it. It is kept to the end of the rendering, so
/// that a drop of a value never goes through it, and is emptied then, so that it does not keep itself.
#[derive(Default)]
struct Kept {
    frames: Vec<Rc<Frame>>,
    namespaces: Vec<Rc<RefCell<Dict>>>,
    /// What `loop.changed` was last given, by loop.
    changed: Vec<Vec<Value>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        for frame in &self.frames {
            frame.clear();
        }
        for namespace in &self.namespaces {
            drop(namespace.replace(Dict::with_capacity(0, Origin::TEMPLATE)));
        }
    }
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
        let symbol = |name: &str| {
            let at = names.iter().position(|known| &**known == name);
            at.map(|at| at as Symbol)
        };
        Self {
            names,
            world,
            // A value has text of the template beside it.
            out: Builder::with_capacity(bytes + CAPACITY, 2 * values),
            is_captured: 0,
            messages,
            message: -1,
            generated: Vec::new(),
            meter: Meter::new(values, bytes),
            kept: Kept::default(),
            last_range: None,
            depth: 0,
            loops: 0,
            symbols: Symbols {
                of_loop: symbol("loop"),
                caller: symbol("caller"),
                varargs: symbol("varargs"),
                kwargs: symbol("kwargs"),
            },
            looked: None,
            notes: None,
        }
    }

    /// Keeps what an operation looked at, if it is the first.
    pub(super) fn look(&mut self, looked: Looked) {
        if self.looked.is_none() {
            self.looked = looked;
        }
    }

    /// Looks for what an operation looked at, unless one has before.
    fn watch(&mut self, looked: impl FnOnce(&Meter) -> Looked) {
        if self.looked.is_none() {
            self.looked = looked(&self.meter);
        }
    }

    /// Takes down what an operation takes for granted.
    pub(super) fn note(&self, note: impl FnOnce(&Notes)) {
        if let Some(notes) = &self.notes
            && !notes.is_open()
        {
            note(notes);
        }
    }

    /// A frame with the caller's variables.
    pub(super) fn frame(variables: Vec<(Symbol, Value)>) -> Rc<Frame> {
        let frame = Frame::new(None);
        for (symbol, value) in variables {
            frame.set(symbol, value);
        }
        Frame::new(Some(frame))
    }

    pub(super) fn finish(self) -> (Builder, Vec<(usize, i32)>, Vec<std::ops::Range<usize>>) {
        (self.out, self.messages, self.generated)
    }

    /// Keeps a frame to which a value refers, and the frames around it. Their variables are charged from now on.
    fn keep_frame(&mut self, frame: &Rc<Frame>) -> Outcome<()> {
        let mut next = Some(frame);
        while let Some(frame) = next.filter(|frame| !frame.is_kept.replace(true)) {
            self.meter.values(FRAME_VALUES + frame.count())?;
            self.kept.frames.push(frame.clone());
            next = frame.parent.as_ref();
        }
        Ok(())
    }

    /// A namespace with these members.
    pub(super) fn namespace(&mut self, members: Dict) -> Outcome<Value> {
        self.meter.values(1)?;
        let namespace = Rc::new(RefCell::new(members));
        self.kept.namespaces.push(namespace.clone());
        Ok(Value::Namespace(namespace))
    }

    /// `loop.changed(…)`: whether the values differ from those of the last time.
    pub(super) fn changed(&mut self, of: &Loop, values: Vec<Value>) -> Outcome<bool> {
        let Some(at) = of.last.get() else {
            self.meter.values(values.len())?;
            of.last.set(Some(self.kept.changed.len()));
            self.kept.changed.push(values);
            return Ok(true);
        };
        let last = &self.kept.changed[at];
        let mut is_same = last.len() == values.len();
        for (one, other) in last.iter().zip(&values) {
            is_same = is_same && one.equals(other, &self.meter)?;
        }
        self.kept.changed[at] = values;
        Ok(!is_same)
    }

    /// A macro, which sees the variables of the frame.
    fn macro_value(&mut self, body: &Arc<MacroBody>, frame: &Rc<Frame>) -> Outcome<Value> {
        self.keep_frame(frame)?;
        let (body, frame) = (body.clone(), frame.clone());
        Ok(Value::Callable(Rc::new(Callable::Macro { body, frame })))
    }

    /// Sets a variable.
    fn set(&self, frame: &Frame, symbol: Symbol, value: Value) -> Outcome<()> {
        if frame.set(symbol, value) && frame.is_kept.get() { self.meter.values(1) } else { Ok(()) }
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
            self.meter.take(1).map_err(|problem| Fault::new(at, problem))?;
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
                let text = value.text(&self.meter).map_err(|problem| Fault::new(at, problem))?;
                self.write(&text, at)?;
            }
            StatementKind::Macro(symbol, body) => {
                let value = self.macro_value(body, frame);
                let is_set = value.and_then(|value| self.set(frame, *symbol, value));
                is_set.map_err(|problem| Fault::new(at, problem))?;
            }
            StatementKind::Call(call, body) => {
                let caller = self.macro_value(body, frame);
                let caller = caller.map_err(|problem| Fault::new(at, problem))?;
                let ExprKind::Call(called, arguments) = &call.kind else { return Ok(Flow::Next) };
                let called = self.eval(called, frame)?;
                let (positional, mut named) = self.arguments(arguments, statement.at, frame)?;
                named.push((Text::template("caller"), caller));
                let value = self.call(&called, positional, named, call.at)?;
                let text = value.text(&self.meter).map_err(|problem| Fault::new(at, problem))?;
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
        let runs = text.run_count() * OUTPUT_RUNS;
        let is_room = self.meter.write(self.out.len(), text.len(), runs);
        is_room.map_err(|problem| Fault::new(at, problem))?;
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
        // The output was charged as it was written.
        Ok((done?, written.finish()))
    }

    fn filtered(&mut self, filter: Option<&Expr>, input: Value, frame: &Rc<Frame>) -> Run<Value> {
        let Some(Expr { at, kind: ExprKind::Filter(before, name, arguments), .. }) = filter else {
            return Ok(input);
        };
        let input = self.filtered(before.as_deref(), input, frame)?;
        let (positional, named) = self.arguments(arguments, *at, frame)?;
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
                self.set(frame, *symbol, value).map_err(|problem| Fault::new(at, problem))?;
            }
            Target::Attribute(symbol, attribute) => {
                let Some(Value::Namespace(members)) = frame.get(*symbol) else {
                    let problem = format!(
                        "`{}` is no namespace, whose attributes alone can be set",
                        self.name(*symbol)
                    );
                    return Err(Fault::new(at, Problem::value(problem)));
                };
                let is_set = self.meter.members(1).and_then(|()| {
                    let name = Value::Str(attribute.clone());
                    members.borrow_mut().insert(name, value, &self.meter)
                });
                is_set.map_err(|problem| Fault::new(at, problem))?;
            }
            Target::Tuple(targets) => {
                value.check().map_err(|problem| Fault::new(at, problem))?;
                self.watch(|meter| watch::iteration(&value, meter));
                let items = value.items(&self.meter).map_err(|problem| Fault::new(at, problem))?;
                if items.len() != targets.len() {
                    let problem = format!("has {} values, expected {}", items.len(), targets.len());
                    return Err(Fault::new(at, Problem::value(problem)));
                }
                for (target, item) in targets.iter().zip(items.iter()) {
                    self.assign(target, item.clone(), frame, at)?;
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
        self.watch(|meter| watch::iteration(list, meter));
        let fault = |problem: Problem| Fault::new(at, problem);
        let mut items = list.items(&self.meter).map_err(fault)?;
        if let Some(condition) = &of.condition {
            self.meter.values(items.len()).map_err(fault)?;
            let mut kept = Vec::with_capacity(items.len());
            for item in items.iter() {
                self.meter.take(2).map_err(fault)?;
                let inner = Frame::new(Some(frame.clone()));
                self.assign(&of.target, item.clone(), &inner, at)?;
                if self.is_true(condition, &inner)? {
                    kept.push(item.clone());
                }
            }
            items = Items::Own(kept, items.depth());
        }
        if items.is_empty() {
            return self.body(&of.otherwise, &Frame::new(Some(frame.clone()))).map(|_| ());
        }
        let items = Rc::new(items);
        let last = Rc::new(Cell::new(None));
        let symbol = self.symbols.of_loop.filter(|_| of.has_loop);
        if of.is_recursive {
            self.keep_frame(frame).map_err(fault)?;
        }
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
            self.meter.take(2).map_err(fault)?;
            // A macro may have kept the frame of an item.
            if Rc::strong_count(&inner) == 1 {
                inner.clear();
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
        self.meter.take(1).map_err(|problem| Fault::new(expr.at as usize, problem))?;
        match &expr.kind {
            ExprKind::None => Ok(Value::None),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Int(value) => Ok(Value::int(*value)),
            ExprKind::Float(value) => Ok(Value::Float(*value, Origin::TEMPLATE)),
            ExprKind::Str(text) => Ok(Value::Str(text.clone())),
            ExprKind::Name(symbol) => {
                self.charge_look(expr, frame)?;
                Ok(self.variable(*symbol, frame))
            }
            _ => {
                self.charge_look(expr, frame)?;
                if let Some(value) = Self::peek(expr, frame, Value::clone) {
                    return Ok(value);
                }
                self.deeper(expr.at, |machine| machine.operation(expr, frame))
            }
        }
    }

    /// Takes the steps that a look at a variable costs where it is not near, or the name of its member is long.
    fn charge_look(&self, expr: &Expr, frame: &Frame) -> Run<()> {
        let length = match &expr.kind {
            ExprKind::Attribute(_, name) => name.len(),
            _ => 0,
        };
        let steps = u64::from(frame.depth) / FRAMES_A_STEP + (length / NAME_A_STEP) as u64;
        if steps == 0 {
            return Ok(());
        }
        self.meter.take(steps).map_err(|problem| Fault::new(expr.at as usize, problem))
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
                        members.get_str(name).map(look)
                    }
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// Whether the value of a condition is true. Unlike `eval`, it copies no value that is only compared or tested.
    fn is_true(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<bool> {
        self.meter.take(1).map_err(|problem| Fault::new(expr.at as usize, problem))?;
        self.charge_look(expr, frame)?;
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
        self.charge_look(first, frame)?;
        if let [(comparison @ (Comparison::Equal | Comparison::NotEqual), right)] = others
            && let ExprKind::Str(literal) = &right.kind
            && literal.len() < NAME_A_STEP
            && let Some((is_equal, looked)) = Self::peek(first, frame, |value| match value {
                Value::Str(text) => {
                    self.note(|notes| notes.equal_texts(text, literal));
                    let is_equal = text.as_str() == literal.as_str();
                    (is_equal, watch::equal_texts(text, literal, &self.meter))
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
            self.note(|notes| notes.comparison(&left, *comparison, &right));
            self.watch(|meter| watch::generated([&left, &right], meter));
            let holds = compare(&left, *comparison, &right, &self.meter);
            let holds = holds.map_err(|problem| Fault::new(at as usize, problem))?;
            self.watch(|meter| watch::comparison(&left, *comparison, &right, holds, meter));
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
                let meter = &self.meter;
                self.note(|notes| notes.test(name, value, &[]));
                let holds = tests::apply(name, value, &[], &[], meter);
                (holds, watch::test(name, value, &[], false, meter))
            })
        {
            self.look(looked);
            return holds.map_err(fault);
        }
        let input = self.eval(input, frame)?;
        let (positional, named) = self.arguments(arguments, at, frame)?;
        let given = tests::given(&positional, &named);
        self.note(|notes| notes.test(name, &input, &given));
        self.watch(|meter| watch::generated(given.iter().chain([&input]), meter));
        let holds = tests::apply(name, &input, &positional, &named, &self.meter).map_err(fault)?;
        self.watch(|meter| watch::test(name, &input, &given, holds, meter));
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

    fn all(&mut self, exprs: &[Expr], at: Position, frame: &Rc<Frame>) -> Run<Vec<Value>> {
        if exprs.is_empty() {
            return Ok(Vec::new());
        }
        self.meter.values(exprs.len()).map_err(|problem| Fault::new(at as usize, problem))?;
        exprs.iter().map(|expr| self.eval(expr, frame)).collect()
    }

    fn dict(&mut self, members: &[(Expr, Expr)], at: Position, frame: &Rc<Frame>) -> Run<Value> {
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        self.meter.members(members.len()).map_err(fault)?;
        let mut dict = Dict::with_capacity(members.len(), Origin::TEMPLATE);
        for (key, value) in members {
            let key = self.eval(key, frame)?;
            key.hash(&self.meter).map_err(fault)?;
            let value = self.eval(value, frame)?;
            dict.insert(key, value, &self.meter).map_err(fault)?;
        }
        let dict = Value::Dict(Rc::new(dict));
        self.watch(|meter| watch::dict(members.len(), &dict, meter));
        self.note(|notes| notes.dict(&dict));
        Ok(dict)
    }

    fn operation(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Run<Value> {
        let at = expr.at;
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        match &expr.kind {
            ExprKind::List(items) => Value::list(self.all(items, at, frame)?).map_err(fault),
            ExprKind::Tuple(items) => Value::tuple(self.all(items, at, frame)?).map_err(fault),
            ExprKind::Dict(members) => self.dict(members, at, frame),
            ExprKind::Attribute(object, name) => {
                let object = self.eval(object, frame)?;
                self.watch(|meter| watch::attribute(&object, name, meter));
                attribute(&object, name).map_err(fault)
            }
            ExprKind::Item(object, index) => {
                let object = self.eval(object, frame)?;
                let index = self.eval(index, frame)?;
                let found = item(&object, &index, &self.meter).map_err(fault)?;
                self.watch(|meter| watch::item(&object, &index, &found, meter));
                self.note(|notes| notes.item(&object, &index));
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
                self.watch(|meter| watch::slice(&object, &parts, meter));
                slice(&object, &parts, &self.meter).map_err(fault)
            }
            ExprKind::Call(called, arguments) => {
                if let ExprKind::Attribute(object, name) = &called.kind {
                    return self.call_attribute(called.at, object, name, arguments, at, frame);
                }
                let called_value = self.eval(called, frame)?;
                let (positional, named) = self.arguments(arguments, at, frame)?;
                self.call(&called_value, positional, named, at)
            }
            ExprKind::Filter(input, name, arguments) => {
                let input = match input {
                    Some(input) => self.eval(input, frame)?,
                    None => Value::None,
                };
                let (positional, named) = self.arguments(arguments, at, frame)?;
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
                self.watch(|meter| watch::content(&value, meter));
                arithmetic::negative(&value).map_err(fault)
            }
            ExprKind::Positive(inner) => {
                let value = self.eval(inner, frame)?;
                self.watch(|meter| watch::content(&value, meter));
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
        let object = self.eval(object, frame)?;
        let fault = |problem: Problem| Fault::new(at as usize, problem);
        if matches!(object, Value::Str(_) | Value::Dict(_) | Value::List(_))
            && methods::has(&object, name)
        {
            let (positional, named) = self.arguments(arguments, at, frame)?;
            return methods::call(self, &object, name, positional, named).map_err(fault);
        }
        let called =
            attribute(&object, name).map_err(|problem| Fault::new(object_at as usize, problem))?;
        let (positional, named) = self.arguments(arguments, at, frame)?;
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
            self.note(|notes| notes.shown(&value));
            let text = value.text(&self.meter).map_err(|problem| Fault::new(at, problem))?;
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
        self.meter.take(1).map_err(fault)?;
        let sum = self.deeper(expr.at, |machine| machine.written_sum(left, start, at, frame))?;
        let (sum, other) = match sum {
            None => match self.written_string(right, at, frame)? {
                None => return Ok(None),
                Some(other) => (Value::Str(self.out.split_off(start)), other),
            },
            Some(sum) => (sum, self.eval(right, frame)?),
        };
        self.watch(|meter| watch::arithmetic(&sum, Operator::Add, &other, meter));
        let sum = arithmetic::apply(self, &sum, Operator::Add, &other);
        sum.map(Some).map_err(|problem| Fault::new(left.at as usize, problem))
    }

    /// Writes a plain string; gives any other value.
    fn written_string(&mut self, expr: &Expr, at: usize, frame: &Rc<Frame>) -> Run<Option<Value>> {
        if let ExprKind::Str(text) = &expr.kind {
            return self.write(text, at).map(|()| None);
        }
        self.charge_look(expr, frame)?;
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
            let value = self.eval(part, frame)?;
            self.note(|notes| notes.shown(&value));
            let text = value.text(&self.meter).map_err(fault)?;
            self.meter.write(joined.len(), text.len(), text.run_count()).map_err(fault)?;
            joined.push_text(&text);
        }
        self.meter.text(joined.len(), 0).map_err(fault)?;
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
        self.watch(|meter| watch::arithmetic(&left, operator, &right, meter));
        arithmetic::apply(self, &left, operator, &right).map_err(|problem| Fault::new(at, problem))
    }

    #[allow(
        clippy::type_complexity,
        reason = "positional and named arguments, as every call has them"
    )]
    fn arguments(
        &mut self,
        arguments: &Arguments,
        at: Position,
        frame: &Rc<Frame>,
    ) -> Run<(Vec<Value>, Named)> {
        let fault = |at: Position| move |problem: Problem| Fault::new(at as usize, problem);
        self.meter.take(CALL_STEPS).map_err(fault(at))?;
        let mut positional = self.all(&arguments.positional, at, frame)?;
        let mut named = Vec::with_capacity(arguments.named.len());
        for (name, value) in &arguments.named {
            named.push((name.clone(), self.eval(value, frame)?));
        }
        if let Some(list) = &arguments.list {
            let at = list.at;
            let list = self.eval(list, frame)?;
            self.watch(|meter| watch::iteration(&list, meter));
            positional.extend(list.iterate(&self.meter).map_err(fault(at))?);
        }
        if let Some(mapping) = &arguments.dict {
            let dict = self.eval(mapping, frame)?;
            self.watch(|meter| watch::names(&dict, meter));
            match dict {
                Value::Dict(dict) => {
                    self.meter.members(dict.members.len()).map_err(fault(mapping.at))?;
                    named.extend(dict.members.iter().filter_map(|(key, value)| match key {
                        Value::Str(name) => Some((name.clone(), value.clone())),
                        _ => None,
                    }));
                }
                other => {
                    let problem = format!("`**` has `{}`, expected a dict", other.kind());
                    return Err(fault(mapping.at)(Problem::value(problem)));
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
                    self.watch(|meter| watch::function(*function, &positional, &named, meter));
                    self.note(|notes| notes.function(*function, &positional));
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
        let limit = |problem: Problem| Fault::new(at as usize, problem);
        let fault = |problem: String| limit(Problem::value(problem));
        // Each parameter is looked for among the named arguments.
        let looks = (body.parameters.len() as u64).saturating_mul(named.len() as u64);
        self.meter.take(CALL_STEPS + looks).map_err(limit)?;
        let inner = Frame::new(Some(frame.clone()));
        let [takes_varargs, takes_kwargs, takes_caller] = body.uses;
        let mut named = named;
        let mut given = positional.into_iter();
        for (symbol, default) in &body.parameters {
            let name = self.names.get(*symbol as usize).cloned().unwrap_or_default();
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
                (None, None) => Value::Undefined(Missing::Parameter(name)),
            };
            self.set(&inner, *symbol, value).map_err(limit)?;
        }
        let rest: Vec<Value> = given.collect();
        if takes_caller {
            let at = named.iter().position(|(name, _)| name.as_str() == "caller");
            let caller =
                at.map_or_else(|| Value::undefined("no caller defined"), |at| named.remove(at).1);
            if let Some(symbol) = self.symbols.caller {
                self.set(&inner, symbol, caller).map_err(limit)?;
            }
        }
        if takes_varargs {
            if let Some(symbol) = self.symbols.varargs {
                let rest = Value::tuple(rest);
                rest.and_then(|rest| self.set(&inner, symbol, rest)).map_err(limit)?;
            }
        } else if !rest.is_empty() {
            let (name, most) = (body.name.as_str(), body.parameters.len());
            return Err(fault(format!(
                "macro `{name}` takes at most {most} arguments, found {}",
                most + rest.len()
            )));
        }
        if takes_kwargs {
            if let Some(symbol) = self.symbols.kwargs {
                self.meter.members(named.len()).map_err(limit)?;
                let members = named.into_iter().map(|(name, value)| (Value::Str(name), value));
                let dict = Dict::new(members, Origin::TEMPLATE, &self.meter).map_err(limit)?;
                self.set(&inner, symbol, Value::Dict(Rc::new(dict))).map_err(limit)?;
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

fn compare(left: &Value, comparison: Comparison, right: &Value, meter: &Meter) -> Outcome<bool> {
    let ordered = |sign: &str, holds: fn(Ordering) -> bool| {
        Ok(left.compare(right, sign, meter)?.is_some_and(holds))
    };
    match comparison {
        Comparison::Equal => left.equals(right, meter),
        Comparison::NotEqual => Ok(!left.equals(right, meter)?),
        Comparison::Less => ordered("<", Ordering::is_lt),
        Comparison::LessOrEqual => ordered("<=", Ordering::is_le),
        Comparison::Greater => ordered(">", Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(">=", Ordering::is_ge),
        Comparison::In => left.is_in(right, meter),
        Comparison::NotIn => Ok(!left.is_in(right, meter)?),
    }
}
