//! The one merge of every token: see [`pairs`](super::pairs) for why there is one.
//!
//! In: the tokens of a vocabulary as first symbols, and its rule for the order of merges. Out: the
//! tables of merging. Cost: about one encoding for each token.

use hashbrown::HashMap;

use super::heap_merge::{Agenda, NO_RANK};
use super::merger::{Merger, Token};
use super::pairs::{Code, MAX_SYMBOLS, NONE, Pairs, Symbol};
use crate::error::{Error, Result};
use crate::token::TokenId;

/// Limit of products. Real vocabularies have some hundred thousand; a hostile file could have many
/// more.
const MAX_MERGES: usize = 4 << 20;

/// Tokens of up to this many symbols are merged by scanning.
const SCANNED: usize = 32;

/// Order in which tokens are made.
pub(super) enum Ranks {
    /// A rank for each token, independent of its parts.
    OfTokens(Vec<u32>),
    /// A rank for each pair of ids; other pairs do not merge.
    OfPairs(HashMap<(TokenId, TokenId), u32>),
}

impl Ranks {
    /// The position of each pair in a list; the last position of a repeated pair.
    pub(super) fn listed(pairs: impl ExactSizeIterator<Item = (TokenId, TokenId)>) -> Result<Self> {
        if pairs.len() > MAX_MERGES {
            let problem = format!("make over {MAX_MERGES} merges, more than is read");
            return Err(Error::new("pieces", problem));
        }
        Ok(Self::OfPairs(pairs.zip(0..).collect()))
    }
}

/// Tokens as the symbols that merging begins with.
#[derive(Default)]
pub(super) struct Spelled {
    symbols: Vec<Symbol>,
    ends: Vec<usize>,
    ids: Vec<TokenId>,
}

impl Spelled {
    /// Adds a token of two symbols or more.
    pub(super) fn push(&mut self, id: TokenId, symbols: impl Iterator<Item = Symbol>) {
        self.symbols.extend(symbols);
        self.ends.push(self.symbols.len());
        self.ids.push(id);
    }

    fn get(&self, at: usize) -> &[Symbol] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.symbols[start..self.ends[at]]
    }
}

/// The parts of a token, and its rank.
#[derive(Clone, Copy)]
struct Made {
    rank: u32,
    left: Symbol,
    right: Symbol,
}

/// Finds the one merge of every token; returns which tokens have one.
///
/// `firsts` are the ids of the first symbols. All pairs of the first `side` of these are kept in a
/// dense table.
pub(super) fn merger_of(
    firsts: Vec<TokenId>,
    side: Symbol,
    tokens: &Spelled,
    ranks: &Ranks,
) -> Result<(Merger, Vec<bool>)> {
    let count = firsts.len() + tokens.ids.len();
    if count > MAX_SYMBOLS {
        let problem = format!("are over {MAX_SYMBOLS}, more than is read");
        return Err(Error::new("pieces", problem));
    }
    // The parts of a token are shorter, so their merges are known by then.
    let mut by_length: Vec<usize> = (0..tokens.ids.len()).collect();
    by_length.sort_by_key(|&at| tokens.get(at).len());
    let first_product = firsts.len() as Symbol;
    let mut ids = firsts;
    ids.extend(by_length.iter().map(|&at| tokens.ids[at]));
    let mut found = Pairs::with_capacity(tokens.ids.len());
    let mut made: Vec<Option<Made>> = vec![None; ids.len()];
    let mut left_over = LeftOver::default();
    for (product, &at) in (first_product..).zip(&by_length) {
        let merge = |left, right| match found.code(left, right) {
            NONE => (NO_RANK, 0),
            code => made[code as usize].map_or((NO_RANK, 0), |made| (made.rank, code)),
        };
        let Some((left, right)) = left_over.two(tokens.get(at), merge) else { continue };
        let rank = match ranks {
            Ranks::OfTokens(ranks) => ranks.get(at).copied(),
            Ranks::OfPairs(ranks) => ranks.get(&(ids[left as usize], ids[right as usize])).copied(),
        };
        if let Some(rank) = rank {
            made[product as usize] = Some(Made { rank, left, right });
            found.insert(left, right, product);
        }
    }
    let mut is_made = vec![false; tokens.ids.len()];
    for (&at, made) in by_length.iter().zip(&made[first_product as usize..]) {
        is_made[at] = made.is_some();
    }
    Ok((by_rank(&made, &ids, first_product, side), is_made))
}

/// Numbers the products by rank.
fn by_rank(made: &[Option<Made>], ids: &[TokenId], first_product: Symbol, side: Symbol) -> Merger {
    let products = made.iter().zip(0..).filter_map(|(made, old)| Some(((*made)?, old)));
    let mut products: Vec<(Made, Symbol)> = products.collect();
    products.sort_by_key(|(made, _)| made.rank);
    let mut new: Vec<Symbol> = (0..made.len() as Symbol).collect();
    let mut new_ids = ids[..first_product as usize].to_vec();
    for &(_, old) in &products {
        new[old as usize] = new_ids.len() as Symbol;
        new_ids.push(ids[old as usize]);
    }
    let mut pairs = Pairs::with_capacity(products.len());
    let mut ties = Vec::new();
    for group in products.chunk_by(|(one, _), (other, _)| one.rank == other.rank) {
        let is_tied = group.len() > 1;
        let code = |old: Symbol| new[old as usize] << 1 | Code::from(is_tied);
        for &(Made { left, right, .. }, old) in group {
            pairs.insert(new[left as usize], new[right as usize], code(old));
        }
        if let ([(_, first), .., (_, last)], true) = (group, is_tied) {
            ties.push((code(*first), code(*last)));
        }
    }
    Merger::new(pairs, side, new_ids, ties)
}

/// Working memory for merging one token.
#[derive(Default)]
struct LeftOver {
    symbols: Vec<Symbol>,
    merges: Vec<(u32, Symbol)>,
    tokens: Vec<Token>,
    agenda: Agenda,
}

impl LeftOver {
    /// The two symbols that remain of a token before its last merge, if there are exactly two.
    /// `merge` returns rank and product of a pair.
    fn two(
        &mut self,
        token: &[Symbol],
        merge: impl Fn(Symbol, Symbol) -> (u32, Symbol),
    ) -> Option<(Symbol, Symbol)> {
        let Self { symbols, merges, tokens, agenda } = self;
        if token.len() > SCANNED {
            tokens.clear();
            agenda.merge(token, 0, tokens, merge);
            return match tokens[..] {
                [left, right] => Some((left.symbol, right.symbol)),
                _ => None,
            };
        }
        symbols.clear();
        symbols.extend_from_slice(token);
        merges.clear();
        merges.extend(symbols.windows(2).map(|pair| merge(pair[0], pair[1])));
        while symbols.len() > 2 {
            let best = merges.iter().enumerate().min_by_key(|(_, (rank, _))| *rank);
            let (at, &(rank, product)) = best?;
            if rank == NO_RANK {
                return None;
            }
            symbols[at] = product;
            symbols.remove(at + 1);
            merges.remove(at);
            if at > 0 {
                merges[at - 1] = merge(symbols[at - 1], product);
            }
            if at < merges.len() {
                merges[at] = merge(product, symbols[at + 1]);
            }
        }
        match symbols[..] {
            // If these two merged already, two tokens would have the same text.
            [left, right] => Some((left, right)),
            _ => None,
        }
    }
}
