//! Column values on the wire: single parameters, keys as one array per column for `UNNEST`, and rows that are read
//! back.

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type};
use uuid::Uuid;

use crate::port::{StoreError, StoreResult};
use crate::postgres::rows::Rows;
use crate::record::{Column, Record};
use crate::value::{ColumnType, Value};

/// The values of one column, for many rows.
#[derive(Debug)]
pub(super) enum Array<'a> {
    Small(Vec<Option<i16>>),
    Int(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<&'a str>>),
    Bytes(Vec<Option<&'a [u8]>>),
    Uuid(Vec<Option<Uuid>>),
}

impl<'a> Array<'a> {
    fn with_capacity(kind: ColumnType, rows: usize) -> Self {
        match kind {
            ColumnType::Small => Self::Small(Vec::with_capacity(rows)),
            ColumnType::Int => Self::Int(Vec::with_capacity(rows)),
            ColumnType::Real => Self::Real(Vec::with_capacity(rows)),
            ColumnType::Text => Self::Text(Vec::with_capacity(rows)),
            ColumnType::Bytes => Self::Bytes(Vec::with_capacity(rows)),
            ColumnType::Uuid => Self::Uuid(Vec::with_capacity(rows)),
        }
    }

    fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Self::Small(values), Value::Small(value)) => values.push(Some(value)),
            (Self::Int(values), Value::Int(value)) => values.push(Some(value)),
            (Self::Real(values), Value::Real(value)) => values.push(Some(value)),
            (Self::Text(values), Value::Text(value)) => values.push(Some(value)),
            (Self::Bytes(values), Value::Bytes(value)) => values.push(Some(value)),
            (Self::Uuid(values), Value::Uuid(value)) => values.push(Some(value)),
            (Self::Small(values), Value::Null) => values.push(None),
            (Self::Int(values), Value::Null) => values.push(None),
            (Self::Real(values), Value::Null) => values.push(None),
            (Self::Text(values), Value::Null) => values.push(None),
            (Self::Bytes(values), Value::Null) => values.push(None),
            (Self::Uuid(values), Value::Null) => values.push(None),
            // A column's type and its values come from the same `Field`, so they always match.
            (array, value) => panic!("{value:?} is not a value of {array:?}"),
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Small(values) => values,
            Self::Int(values) => values,
            Self::Real(values) => values,
            Self::Text(values) => values,
            Self::Bytes(values) => values,
            Self::Uuid(values) => values,
        }
    }
}

/// Rows converted into one array per column.
pub(super) struct Arrays<'a> {
    arrays: Vec<Array<'a>>,
    scratch: Vec<Value<'a>>,
}

impl<'a> Arrays<'a> {
    pub(super) fn new<'c>(columns: impl IntoIterator<Item = &'c Column>, rows: usize) -> Self {
        let arrays = columns.into_iter().map(|column| Array::with_capacity(column.kind, rows)).collect();
        Self { arrays, scratch: Vec::new() }
    }

    /// Adds a row. `fill` adds its values in the order of the columns.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut Vec<Value<'a>>)) {
        self.scratch.clear();
        fill(&mut self.scratch);
        assert_eq!(self.scratch.len(), self.arrays.len(), "a row has one value for each column");
        for (array, value) in self.arrays.iter_mut().zip(&self.scratch) {
            array.push(*value);
        }
    }

    pub(super) fn into_parameters(self) -> Vec<Parameter<'a>> {
        self.arrays.into_iter().map(Parameter::Many).collect()
    }
}

/// A parameter of a statement.
#[derive(Debug)]
pub(super) enum Parameter<'a> {
    One(Value<'a>),
    Many(Array<'a>),
    Rows(Rows<'a>),
}

impl<'a> From<Value<'a>> for Parameter<'a> {
    fn from(value: Value<'a>) -> Self {
        Self::One(value)
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::One(Value::Null) => None::<i16>.to_sql_checked(ty, out),
            Self::One(Value::Small(value)) => value.to_sql_checked(ty, out),
            Self::One(Value::Int(value)) => value.to_sql_checked(ty, out),
            Self::One(Value::Real(value)) => value.to_sql_checked(ty, out),
            Self::One(Value::Text(value)) => value.to_sql_checked(ty, out),
            Self::One(Value::Bytes(value)) => value.to_sql_checked(ty, out),
            Self::One(Value::Uuid(value)) => value.to_sql_checked(ty, out),
            Self::Many(array) => array.as_sql().to_sql_checked(ty, out),
            Self::Rows(rows) => rows.encode(ty, out).map(|()| IsNull::No),
        }
    }

    fn accepts(_: &Type) -> bool {
        // `to_sql` checks whether the type fits, because that depends on the value.
        true
    }

    fn to_sql_checked(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.to_sql(ty, out)
    }
}

/// A limit as a parameter. A number beyond the range of SQL means no limit.
pub(super) fn limit(limit: usize) -> Value<'static> {
    Value::Int(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Reads a record from the first columns of the row.
pub(super) fn read<R: Record>(row: &Row) -> StoreResult<R> {
    let mut failure = None;
    let record = R::read(|index| {
        value(row, index, R::COLUMNS[index].kind).unwrap_or_else(|error| {
            failure = Some(error);
            Value::Null
        })
    });
    match (failure, record) {
        (Some(error), _) => Err(unreadable(format!("cannot read a row of {}: {error}", R::TABLE))),
        (None, Err(error)) => Err(unreadable(error.to_string())),
        (None, Ok(record)) => Ok(record),
    }
}

/// Whether the row contains a record: a key is never NULL.
pub(super) fn is_there<R: Record>(row: &Row) -> StoreResult<bool> {
    let key = value(row, 0, R::COLUMNS[0].kind).map_err(|error| unreadable(error.to_string()))?;
    Ok(key != Value::Null)
}

pub(super) fn read_all<R: Record>(rows: &[Row]) -> StoreResult<Vec<R>> {
    rows.iter().map(read).collect()
}

/// A column that is not part of a record.
pub(super) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> StoreResult<T> {
    row.try_get(index).map_err(|error| unreadable(error.to_string()))
}

/// An unreadable row is an error only for the request that needs it, not for all others.
fn unreadable(problem: String) -> StoreError {
    StoreError::Refused(problem)
}

fn value(row: &Row, index: usize, kind: ColumnType) -> Result<Value<'_>, tokio_postgres::Error> {
    Ok(match kind {
        ColumnType::Small => row.try_get::<_, Option<i16>>(index)?.map_or(Value::Null, Value::Small),
        ColumnType::Int => row.try_get::<_, Option<i64>>(index)?.map_or(Value::Null, Value::Int),
        ColumnType::Real => row.try_get::<_, Option<f64>>(index)?.map_or(Value::Null, Value::Real),
        ColumnType::Text => row.try_get::<_, Option<&str>>(index)?.map_or(Value::Null, Value::Text),
        ColumnType::Bytes => row.try_get::<_, Option<&[u8]>>(index)?.map_or(Value::Null, Value::Bytes),
        ColumnType::Uuid => row.try_get::<_, Option<Uuid>>(index)?.map_or(Value::Null, Value::Uuid),
    })
}
