//! A value in an Arrow array, read through the same [`Node`] as values of Python and of JSON.
//!
//! In: an array that was validated, and a row. Out: views that borrow their text from Arrow's buffers.
//! A null in a struct is an absent key: Arrow gives every struct of a column the same fields.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, RunEndIndexType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    RunArray,
};
use arrow_schema::{DataType, FieldRef};
use chatcodec::{Node, View};
use serde_json::Value;

/// A value of a table: in an array, in parsed JSON, or made of such values.
#[derive(Clone)]
pub(crate) enum Cell<'a> {
    /// The value in a row of an array.
    Arrow(&'a dyn Array, usize),
    /// A value in parsed JSON.
    Json(&'a Value),
    /// Text of a column, of a schema, or of this crate.
    Text(&'a str),
    /// Text of several columns.
    Joined(String),
    /// A list of values.
    List(Vec<Cell<'a>>),
    /// A mapping, in order.
    Map(Vec<(Cell<'a>, Cell<'a>)>),
}

impl<'a> Cell<'a> {
    /// The text, if the value is text.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match self {
            Self::Arrow(array, row) => text_at(*array, *row),
            Self::Json(Value::String(text)) => Some(text),
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if the value is a list.
    pub(crate) fn items(&self) -> Option<Vec<Self>> {
        match self.view() {
            View::List(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if the value is a mapping.
    pub(crate) fn members(&self) -> Option<Vec<(Self, Self)>> {
        match self.view() {
            View::Map(members) => Some(members),
            _ => None,
        }
    }

    /// Whether the value is null.
    pub(crate) fn is_null(&self) -> bool {
        match self {
            Self::Arrow(array, row) => is_null_at(*array, *row),
            Self::Json(value) => value.is_null(),
            _ => false,
        }
    }
}

impl Node for Cell<'_> {
    fn view(&self) -> View<'_, Self> {
        match self {
            Self::Arrow(array, row) => view_at(*array, *row),
            Self::Json(value) => view_json(value),
            Self::Text(text) => View::Text(text),
            Self::Joined(text) => View::Text(text),
            Self::List(items) => View::List(items.clone()),
            Self::Map(members) => View::Map(members.clone()),
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Joined(text) => Some(text),
            _ => self.text(),
        }
    }
}

fn view_json(value: &Value) -> View<'_, Cell<'_>> {
    match value {
        Value::Null => View::Null,
        Value::Bool(truth) => View::Bool(*truth),
        Value::Number(number) => View::Number(number.to_string()),
        Value::String(text) => View::Text(text),
        Value::Array(items) => View::List(items.iter().map(Cell::Json).collect()),
        Value::Object(members) => {
            let member = |(key, value)| (Cell::Text(String::as_str(key)), Cell::Json(value));
            View::Map(members.iter().map(member).collect())
        }
    }
}

/// Whether a row of an array is null, of itself or as an entry of a dictionary or of a run.
fn is_null_at(array: &dyn Array, row: usize) -> bool {
    array.is_null(row)
        || match array.data_type() {
            DataType::Null => true,
            DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
                entry(array, row).is_none_or(|(values, at)| is_null_at(values, at))
            }
            _ => false,
        }
}

/// The text in a row of an array of strings, or of a dictionary or runs of them.
fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            entry(array, row).and_then(|(values, at)| text_at(values, at))
        }
        _ => None,
    }
}

fn view_at<'a>(array: &'a dyn Array, row: usize) -> View<'a, Cell<'a>> {
    if array.is_null(row) {
        return View::Null;
    }
    if let Some(text) = text_at(array, row) {
        return View::Text(text);
    }
    match array.data_type() {
        DataType::Null => View::Null,
        DataType::Boolean => View::Bool(array.as_boolean().value(row)),
        DataType::List(_) => items(array.as_list::<i32>(), row),
        DataType::LargeList(_) => items(array.as_list::<i64>(), row),
        DataType::ListView(_) => viewed_items(array.as_list_view::<i32>(), row),
        DataType::LargeListView(_) => viewed_items(array.as_list_view::<i64>(), row),
        DataType::FixedSizeList(_, size) => {
            let list = array.as_fixed_size_list();
            let (start, size) = (list.value_offset_at(row), *size as usize);
            range(list.values().as_ref(), start, start + size)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let member = |(field, column): (&'a FieldRef, &'a ArrayRef)| {
                let value = Cell::Arrow(column.as_ref(), row);
                (!value.is_null()).then_some((Cell::Text(field.name()), value))
            };
            View::Map(columns.filter_map(member).collect())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
            let (keys, values) = (map.keys().as_ref(), map.values().as_ref());
            let member = |at| (Cell::Arrow(keys, at), Cell::Arrow(values, at));
            View::Map((start..end).map(member).collect())
        }
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            entry(array, row).map_or(View::Null, |(values, at)| view_at(values, at))
        }
        _ => number(array, row).map_or_else(|| other(array), View::Number),
    }
}

fn other<'a>(array: &dyn Array) -> View<'a, Cell<'a>> {
    View::Other(array.data_type().to_string())
}

/// The values of an array that is encoded as a dictionary or as runs, and the place of a row's value among them.
fn entry(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
    fn of<K: ArrowDictionaryKeyType>(
        array: &DictionaryArray<K>,
        row: usize,
    ) -> Option<(&dyn Array, usize)> {
        let at = array.key(row)?;
        (at < array.values().len()).then(|| (array.values().as_ref(), at))
    }
    fn of_runs<R: RunEndIndexType>(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
        let runs = array.as_any().downcast_ref::<RunArray<R>>()?;
        let at = runs.get_physical_index(row);
        (at < runs.values().len()).then(|| (runs.values().as_ref(), at))
    }
    let key = match array.data_type() {
        DataType::RunEndEncoded(ends, _) => {
            return match ends.data_type() {
                DataType::Int16 => of_runs::<Int16Type>(array, row),
                DataType::Int32 => of_runs::<Int32Type>(array, row),
                _ => of_runs::<Int64Type>(array, row),
            };
        }
        DataType::Dictionary(key, _) => key,
        _ => return None,
    };
    match **key {
        DataType::Int8 => of(array.as_dictionary::<Int8Type>(), row),
        DataType::Int16 => of(array.as_dictionary::<Int16Type>(), row),
        DataType::Int32 => of(array.as_dictionary::<Int32Type>(), row),
        DataType::Int64 => of(array.as_dictionary::<Int64Type>(), row),
        DataType::UInt8 => of(array.as_dictionary::<UInt8Type>(), row),
        DataType::UInt16 => of(array.as_dictionary::<UInt16Type>(), row),
        DataType::UInt32 => of(array.as_dictionary::<UInt32Type>(), row),
        DataType::UInt64 => of(array.as_dictionary::<UInt64Type>(), row),
        _ => None,
    }
}

fn items<O: OffsetSizeTrait>(list: &GenericListArray<O>, row: usize) -> View<'_, Cell<'_>> {
    let offsets = list.value_offsets();
    range(list.values().as_ref(), offsets[row].as_usize(), offsets[row + 1].as_usize())
}

fn viewed_items<O: OffsetSizeTrait>(
    list: &GenericListViewArray<O>,
    row: usize,
) -> View<'_, Cell<'_>> {
    let start = list.value_offset(row).as_usize();
    range(list.values().as_ref(), start, start + list.value_size(row).as_usize())
}

fn range(values: &dyn Array, start: usize, end: usize) -> View<'_, Cell<'_>> {
    View::List((start..end).map(|at| Cell::Arrow(values, at)).collect())
}

/// A number as Python writes it.
fn number(array: &dyn Array, row: usize) -> Option<String> {
    macro_rules! written {
        ($($kind:ident => $primitive:ty),*) => {
            match array.data_type() {
                $(DataType::$kind => array.as_primitive::<$primitive>().value(row).to_string(),)*
                DataType::Float16 => {
                    float(array.as_primitive::<Float16Type>().value(row).to_f64())
                }
                DataType::Float32 => {
                    float(array.as_primitive::<Float32Type>().value(row).into())
                }
                DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
                _ => return None,
            }
        };
    }
    Some(written!(
        Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
        UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type
    ))
}

/// A float as Python writes it: `1e-05` where Rust writes `1e-5`, `1e+16` where it writes `1e16`.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
    }
}
