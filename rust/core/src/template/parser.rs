//! Tokens into the syntax tree, by the grammar of jinja2.
//!
//! In: the source of a template. Out: its statements, and the names of its variables, or the first fault. Here are the
//! tokens and the bounds; `parser/statements.rs` reads blocks, `parser/expressions.rs` reads what they hold. Cost:
//! linear in the tokens.

mod expressions;
mod statements;

use std::sync::Arc;

use hashbrown::HashMap;

use super::ast::{Body, Expr, ExprKind, Symbol};
use super::error::{Fault, Problem};
use super::lexer::{Token, tokens};

/// Deepest nesting of expressions and statements.
const MAX_DEPTH: usize = 100;

/// Most levels of an expression, those of chains such as `a + b + c` among them.
const MAX_HEIGHT: u16 = 600;

/// Most tokens of a template: published ones have up to some ten thousand.
const MAX_TOKENS: usize = 500_000;

/// Parses a template: its statements, and the names of its variables.
pub(super) fn parse(source: &str) -> Result<Parsed, Fault> {
    let tokens = tokens(source)?;
    if tokens.len() > MAX_TOKENS {
        let problem = format!("has {} tokens, expected at most {MAX_TOKENS}", tokens.len());
        return Err(Fault::new(0, Problem::Limit(problem)));
    }
    let mut parser = Parser {
        tokens,
        next: 0,
        names: Vec::new(),
        symbols: HashMap::new(),
        depth: 0,
        loops: 0,
        loop_mentions: 0,
        conditions: 0,
        uses: Vec::new(),
    };
    let body = parser.body(&[])?;
    Ok(Parsed { body, names: parser.names })
}

/// A parsed template.
pub(super) struct Parsed {
    pub(super) body: Body,
    pub(super) names: Vec<Arc<str>>,
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    next: usize,
    names: Vec<Arc<str>>,
    symbols: HashMap<Arc<str>, Symbol>,
    depth: usize,
    /// Loops around the statement, up to the next macro.
    loops: usize,
    /// How often the name `loop` was met.
    loop_mentions: usize,
    /// `{% if %}` blocks around the statement: filters and tests that nobody knows fail there when they run.
    conditions: usize,
    /// Per macro around the expression whether it uses `varargs`, `kwargs`, `caller`.
    uses: Vec<[bool; 3]>,
}

type Outcome<T> = Result<T, Fault>;

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> u32 {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    fn fault<T>(&self, problem: impl Into<String>) -> Outcome<T> {
        Err(Fault::new(self.at() as usize, Problem::syntax(problem)))
    }

    /// The token at hand, for an error.
    fn found(&self) -> String {
        match self.token() {
            Token::Text(_) => "text".into(),
            Token::BlockBegin => "`{%`".into(),
            Token::BlockEnd => "`%}`".into(),
            Token::PrintBegin => "`{{`".into(),
            Token::PrintEnd => "`}}`".into(),
            Token::Name(name) => format!("`{name}`"),
            Token::Int(_) | Token::Float(_) => "a number".into(),
            Token::Str(_) => "a string".into(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the template".into(),
        }
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.token(), Token::Name(found) if found == name)
    }

    fn skip(&mut self, sign: &str) -> bool {
        let is = self.is(sign);
        if is {
            self.advance();
        }
        is
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let is = self.is_name(name);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, sign: &str) -> Outcome<()> {
        if self.skip(sign) {
            Ok(())
        } else {
            self.fault(format!("found {}, expected `{sign}`", self.found()))
        }
    }

    fn expect_name(&mut self, name: &str) -> Outcome<()> {
        if self.skip_name(name) {
            Ok(())
        } else {
            self.fault(format!("found {}, expected `{name}`", self.found()))
        }
    }

    fn any_name(&mut self) -> Outcome<String> {
        match self.token() {
            Token::Name(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => self.fault(format!("found {}, expected a name", self.found())),
        }
    }

    fn block_end(&mut self) -> Outcome<()> {
        // As in Python, a colon may stand before the end.
        self.skip(":");
        if *self.token() == Token::BlockEnd {
            self.advance();
            return Ok(());
        }
        self.fault(format!("found {}, expected `%}}`", self.found()))
    }

    fn symbol(&mut self, name: &str) -> Symbol {
        self.loop_mentions += usize::from(name == "loop");
        if let Some(known) = self.symbols.get(name) {
            return *known;
        }
        let (at, name) = (self.names.len() as Symbol, Arc::<str>::from(name));
        self.names.push(name.clone());
        self.symbols.insert(name, at);
        at
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        if self.depth >= MAX_DEPTH {
            let problem = Problem::Limit(format!("nests deeper than {MAX_DEPTH}"));
            return Err(Fault::new(self.at() as usize, problem));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A link of a chain: the chain so far is within the expression.
    fn link(at: u32, kind: ExprKind) -> Outcome<Expr> {
        let expr = Expr::new(at, kind);
        if expr.height > MAX_HEIGHT {
            let problem = Problem::Limit(format!("nests deeper than {MAX_HEIGHT}"));
            return Err(Fault::new(at as usize, problem));
        }
        Ok(expr)
    }
}

#[cfg(test)]
mod height_tests {
    use super::parse;

    /// The chains of the grammar: each is parsed by a loop, and dropped by recursion.
    const CHAINS: [(&str, &str, &str); 13] = [
        ("{{ a", ".a", " }}"),
        ("{{ a", "[0]", " }}"),
        ("{{ a", "[:1]", " }}"),
        ("{{ a", "()", " }}"),
        ("{{ a", "|d", " }}"),
        ("{{ a", "|d()()", " }}"),
        ("{{ a", " + a", " }}"),
        ("{{ a", " * a", " }}"),
        ("{{ a", " ** a", " }}"),
        ("{{ a", " and a", " }}"),
        ("{{ a", " or a", " }}"),
        ("{{ a", " if a", " }}"),
        ("{% filter d", "|d", " %}{% endfilter %}"),
    ];

    #[test]
    fn a_long_chain_is_refused_and_dropped() {
        for (start, link, end) in CHAINS {
            let source = |links: usize| format!("{start}{}{end}", link.repeat(links));
            assert!(parse(&source(250)).is_ok(), "{}", source(1));
            let fault = parse(&source(50_000)).err();
            let problem = fault.map(|fault| fault.problem().text().to_owned());
            assert_eq!(problem.as_deref(), Some("nests deeper than 600"), "{}", source(1));
        }
    }

    #[test]
    fn chains_within_chains_are_as_high_as_all_of_them() {
        let mut expr = String::from("a");
        for _ in 0..50 {
            expr = format!("({expr}{})", ".a".repeat(500));
        }
        assert!(parse(&format!("{{{{ {expr} }}}}")).is_err());
    }
}
