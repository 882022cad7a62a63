//! Packing: conversations of a table put into rows of one size, few rows.
//!
//! In: lengths, or a table with lists of ids. Out: the items of each bin, or a table with a row a bin.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::arrow_read::reader_of;
use crate::away::away;
use crate::table::EncodedTable;

/// Columns that are packed if the table has them, and the value that the first id of a conversation gets.
const PACKED: [&str; 3] = ["input_ids", "labels", "attention_mask"];

/// Packs items into bins of `size`, few bins: best fit decreasing, in O(n log n) time. Gives the indices of the
/// items of each bin, in order; bins are in the order of their first items.
///
/// Raises `ValueError` for a length that is negative or greater than `size`.
#[pyfunction]
#[pyo3(signature = (lengths: "Sequence[int]", size: "int") -> "list[list[int]]")]
pub(crate) fn pack(py: Python<'_>, lengths: Vec<i64>, size: usize) -> PyResult<Vec<Vec<usize>>> {
    let counts = lengths.iter().map(|&length| usize::try_from(length));
    let counts = counts.collect::<Result<Vec<_>, _>>().map_err(|_| {
        let at = lengths.iter().position(|&length| length < 0).unwrap_or_default();
        let length = lengths.get(at).copied().unwrap_or_default();
        PyValueError::new_err(format!("`lengths[{at}]` is {length}, expected 0 or more"))
    })?;
    away(py, move || chatcodec::pack(&counts, size).map_err(|at| (at, counts[at])))?.map_err(
        |(at, length)| {
            let problem = format!("`lengths[{at}]` is {length}, expected at most {size} (`size`)");
            PyValueError::new_err(problem)
        },
    )
}

/// Packs the conversations of a table into rows of at most `size` ids, few rows.
///
/// `table` is an object with Arrow's interface and the column `input_ids`, a list of ints, as `Codec.encode_table`
/// gives it. The result has a row a bin with the columns `input_ids`, `labels` and `attention_mask` (if the table
/// has them), `position_ids`, which begin anew with each conversation, and `sequence_lengths`. All are
/// list<int32>; `attention_mask` is list<int8>. The first label of each conversation is `ignore_index`, because
/// nothing of it comes before. Rows without ids are left out; other columns, too.
///
/// Raises `ValueError` for a table without `input_ids`, for columns of other types or with lists of other lengths,
/// and for a conversation with more than `size` ids.
#[pyfunction]
#[pyo3(signature = (table: "object", size: "int", *, ignore_index: "int" = -100), text_signature = "(table, size, *, ignore_index=-100)")]
pub(crate) fn pack_table(
    table: &Bound<'_, PyAny>,
    size: usize,
    ignore_index: i32,
) -> PyResult<EncodedTable> {
    let py = table.py();
    let reader = reader_of(table)?;
    away(py, move || {
        let batches = reader.collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|error| format!("`table` cannot be read: {error}"))?;
        packed(&batches, size, ignore_index)
    })?
    .map_err(PyValueError::new_err)
}

/// The lists of a column, one after another.
#[derive(Default)]
struct Lists {
    values: Vec<i32>,
    /// Where each row begins, and the end; a null row is empty.
    offsets: Vec<usize>,
}

impl Lists {
    fn row(&self, row: usize) -> &[i32] {
        &self.values[self.offsets[row]..self.offsets[row + 1]]
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn read(batches: &[RecordBatch], name: &str) -> Result<Option<Self>, String> {
        let mut lists = Self { values: Vec::new(), offsets: vec![0] };
        for batch in batches {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            column
                .to_data()
                .validate_full()
                .map_err(|error| format!("column `{name}` is no valid Arrow array: {error}"))?;
            match column.data_type() {
                DataType::List(_) => lists.push_all::<i32>(column, name)?,
                DataType::LargeList(_) => lists.push_all::<i64>(column, name)?,
                kind => return Err(wrong_type(name, kind)),
            }
        }
        Ok(Some(lists))
    }

    fn push_all<O: OffsetSizeTrait>(
        &mut self,
        column: &ArrayRef,
        name: &str,
    ) -> Result<(), String> {
        let lists = column.as_list::<O>();
        let offsets = lists.value_offsets();
        let (first, last) = (offsets[0].as_usize(), offsets[lists.len()].as_usize());
        let values = lists.values().slice(first, last - first);
        if values.null_count() > 0 {
            return Err(format!("column `{name}` has a null within a list, expected ints"));
        }
        let ints: Vec<i32> = match values.data_type() {
            DataType::Int32 => values.as_primitive::<Int32Type>().values().to_vec(),
            DataType::Int8 => {
                values.as_primitive::<Int8Type>().values().iter().map(|&v| v.into()).collect()
            }
            DataType::Int64 => {
                let ints = values.as_primitive::<Int64Type>().values().iter();
                let ints = ints.map(|&value| i32::try_from(value));
                ints.collect::<Result<_, _>>()
                    .map_err(|_| format!("column `{name}` holds an int over 32 bits"))?
            }
            kind => return Err(wrong_type(name, kind)),
        };
        for row in 0..lists.len() {
            if lists.is_valid(row) {
                let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
                self.values.extend_from_slice(&ints[start - first..end - first]);
            }
            self.offsets.push(self.values.len());
        }
        Ok(())
    }
}

fn wrong_type(name: &str, kind: &DataType) -> String {
    format!("column `{name}` is `{kind}`, expected lists of int32")
}

fn packed(batches: &[RecordBatch], size: usize, ignore_index: i32) -> Result<EncodedTable, String> {
    let mut columns = Vec::new();
    for name in PACKED {
        columns.extend(Lists::read(batches, name)?.map(|lists| (name, lists)));
    }
    let Some(("input_ids", ids)) = columns.first().map(|(name, ids)| (*name, ids)) else {
        return Err("the table has no column `input_ids`".to_owned());
    };
    let length = |row: usize| ids.row(row).len();
    for (name, lists) in &columns {
        let differs = (0..ids.rows()).find(|&row| lists.row(row).len() != length(row));
        if let Some(row) = differs {
            let (found, expected) = (lists.row(row).len(), length(row));
            let problem = format!("has {found} items, expected {expected} as `input_ids`");
            return Err(format!("`rows[{row}].{name}` {problem}"));
        }
    }
    let rows: Vec<usize> = (0..ids.rows()).filter(|&row| length(row) > 0).collect();
    let lengths: Vec<usize> = rows.iter().map(|&row| length(row)).collect();
    let bins = chatcodec::pack(&lengths, size).map_err(|at| {
        let (row, length) = (rows[at], lengths[at]);
        format!("`rows[{row}].input_ids` has {length} ids, expected at most {size} (`size`)")
    })?;
    let bins: Vec<Vec<usize>> =
        bins.into_iter().map(|bin| bin.into_iter().map(|at| rows[at]).collect()).collect();
    let ends: Vec<usize> = bins
        .iter()
        .scan(0, |end, bin| {
            *end += bin.iter().map(|&row| length(row)).sum::<usize>();
            Some(*end)
        })
        .collect();
    if i32::try_from(ends.last().copied().unwrap_or_default()).is_err() {
        return Err("the table has more than 2^31 ids; pack it in parts".to_owned());
    }
    let offsets: Vec<i32> = std::iter::once(0).chain(ends.iter().map(|&end| end as i32)).collect();
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    let mut add = |name: &str, offsets: &[i32], values: ArrayRef| {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets.to_vec()));
        let list = ListArray::new(field, offsets, values, None);
        fields.push(Field::new(name, list.data_type().clone(), true));
        arrays.push(Arc::new(list));
    };
    let ints = |values: Vec<i32>| -> ArrayRef { Arc::new(arrow_array::Int32Array::from(values)) };
    for (name, lists) in &columns {
        let mut values = Vec::with_capacity(ids.values.len());
        for row in bins.iter().flatten() {
            let start = values.len();
            values.extend_from_slice(lists.row(*row));
            if *name == "labels" {
                values[start] = ignore_index;
            }
        }
        let values: ArrayRef = if *name == "attention_mask" {
            Arc::new(
                values
                    .into_iter()
                    .map(|value| Some(value as i8))
                    .collect::<arrow_array::Int8Array>(),
            )
        } else {
            ints(values)
        };
        add(name, &offsets, values);
    }
    let positions = bins.iter().flatten().flat_map(|&row| 0..length(row) as i32).collect();
    add("position_ids", &offsets, ints(positions));
    let counts = bins.iter().scan(0, |end, bin| {
        *end += bin.len() as i32;
        Some(*end)
    });
    let counts: Vec<i32> = std::iter::once(0).chain(counts).collect();
    let lengths = bins.iter().flatten().map(|&row| length(row) as i32).collect();
    add("sequence_lengths", &counts, ints(lengths));
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|e| e.to_string())?;
    Ok(EncodedTable::of_batch(schema, batch))
}
