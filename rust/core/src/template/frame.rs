//! The variables of a block, and of the blocks around it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;

use super::ast::Symbol;
use super::value::Value;

/// From so many variables on, a frame has an index.
const INDEXED: usize = 12;

/// Variables in order, found by an index once they are many.
#[derive(Default)]
struct Variables {
    values: Vec<(Symbol, Value)>,
    /// Places of all variables, if they are many.
    index: Option<Box<HashMap<Symbol, usize>>>,
}

impl Variables {
    fn place(&self, symbol: Symbol) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&symbol).copied(),
            None => self.values.iter().position(|(known, _)| *known == symbol),
        }
    }

    /// Sets a variable; whether it is a new one.
    fn set(&mut self, symbol: Symbol, value: Value) -> bool {
        if let Some(at) = self.place(symbol) {
            self.values[at].1 = value;
            return false;
        }
        if let Some(index) = &mut self.index {
            index.insert(symbol, self.values.len());
        }
        self.values.push((symbol, value));
        if self.values.len() == INDEXED {
            let symbols = self.values.iter().enumerate();
            let places = symbols.map(|(at, (symbol, _))| (*symbol, at)).collect();
            self.index = Some(Box::new(places));
        }
        true
    }
}

pub(super) struct Frame {
    variables: RefCell<Variables>,
    pub(super) parent: Option<Rc<Self>>,
    /// Frames around this one.
    pub(super) depth: u32,
    /// Whether the machine keeps the frame, because values of its own refer to it.
    pub(super) is_kept: Cell<bool>,
}

impl Frame {
    pub(super) fn new(parent: Option<Rc<Self>>) -> Rc<Self> {
        let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
        let variables = RefCell::default();
        Rc::new(Self { variables, parent, depth, is_kept: Cell::new(false) })
    }

    pub(super) fn get(&self, symbol: Symbol) -> Option<Value> {
        self.look(symbol, |value| Some(value.clone()))
    }

    /// Looks at the value of a variable where it is.
    pub(super) fn look<R>(
        &self,
        symbol: Symbol,
        look: impl FnOnce(&Value) -> Option<R>,
    ) -> Option<R> {
        let mut frame = self;
        loop {
            let variables = frame.variables.borrow();
            if let Some(at) = variables.place(symbol) {
                return look(&variables.values[at].1);
            }
            frame = frame.parent.as_deref()?;
        }
    }

    /// Sets a variable; whether it is a new one.
    pub(super) fn set(&self, symbol: Symbol, value: Value) -> bool {
        // What the variable was is dropped when nothing is borrowed any more.
        self.variables.borrow_mut().set(symbol, value)
    }

    /// How many variables are its own.
    pub(super) fn count(&self) -> usize {
        self.variables.borrow().values.len()
    }

    /// Drops all variables.
    pub(super) fn clear(&self) {
        let mut variables = self.variables.borrow_mut();
        variables.values.clear();
        variables.index = None;
    }
}
