//! Whole rows on the wire, as one array of the table's row type. With one array for each column, the database would
//! create a buffer for each in every statement, and read every row from all of them.
//!
//! The row type is the one with which the statement was prepared, and its fields are found by name. Columns that a
//! newer process has added are sent as NULL, and no statement of this version uses them. If a column is added while a
//! statement is prepared, the database refuses the rows, and the connection can no longer be used (see
//! `error::is_outdated`).

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{Field, Kind, Type};

use crate::record::{Column, Record};
use crate::value::{ColumnType, Value};

type EncodeError = Box<dyn std::error::Error + Sync + Send>;

/// Rows of one table.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    columns: &'static [Column],
    /// Row after row, one value for each column.
    values: Vec<Value<'a>>,
}

impl<'a> Rows<'a> {
    /// Takes the columns for which `given` is true from every row. The other columns are not sent.
    pub(super) fn new<R: Record>(
        rows: impl ExactSizeIterator<Item = &'a R>,
        given: impl Fn(usize) -> bool,
    ) -> Self {
        let mut values = Vec::with_capacity(rows.len() * R::COLUMNS.len());
        let left_out: Vec<usize> = (0..R::COLUMNS.len()).filter(|index| !given(*index)).collect();
        for row in rows {
            let start = values.len();
            row.values(&mut values);
            for index in &left_out {
                values[start + index] = Value::Null;
            }
        }
        Self { columns: R::COLUMNS, values }
    }

    /// Encodes the rows in the format that the server's `array_recv` and `record_recv` read.
    pub(super) fn encode(&self, kind: &Type, out: &mut BytesMut) -> Result<(), EncodeError> {
        let Kind::Array(row_type) = kind.kind() else { return Err(not_rows(kind)) };
        let Kind::Composite(fields) = row_type.kind() else { return Err(not_rows(kind)) };
        let places = places(self.columns, fields);
        let rows = self.values.chunks_exact(self.columns.len());
        // One dimension, and no row is NULL.
        out.put_i32(1);
        out.put_i32(0);
        out.put_u32(row_type.oid());
        out.put_i32(i32::try_from(rows.len())?);
        out.put_i32(1);
        for row in rows {
            sized(out, |out| {
                out.put_i32(i32::try_from(fields.len())?);
                for (field, place) in fields.iter().zip(&places) {
                    match place {
                        Some(index) => put_column(self.columns[*index].kind, row[*index], out)?,
                        None => {
                            out.put_u32(field.type_().oid());
                            put(Value::Null, out)?;
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn not_rows(kind: &Type) -> EncodeError {
    format!("{kind} is not an array of rows").into()
}

/// The column for each field of the row type. `None` for a field that this version does not know. Both are in nearly
/// the same order.
fn places(columns: &[Column], fields: &[Field]) -> Vec<Option<usize>> {
    let mut next = 0;
    let find = |field: &Field| {
        let mut order = (next..columns.len()).chain(0..next);
        let found = order.find(|index| columns[*index].name == field.name());
        next = found.map_or(next, |index| index + 1);
        found
    };
    fields.iter().map(find).collect()
}

/// Writes a value with the type of its column, which the server compares with its own type.
fn put_column(kind: ColumnType, value: Value<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
    let stored = match kind {
        ColumnType::Small => Type::INT2,
        ColumnType::Int => Type::INT8,
        ColumnType::Real => Type::FLOAT8,
        ColumnType::Text => Type::TEXT,
        ColumnType::Bytes => Type::BYTEA,
        ColumnType::Uuid => Type::UUID,
    };
    out.put_u32(stored.oid());
    put(value, out)
}

fn put(value: Value<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
    match value {
        Value::Null => out.put_i32(-1),
        Value::Small(value) => {
            out.put_i32(2);
            out.put_i16(value);
        }
        Value::Int(value) => {
            out.put_i32(8);
            out.put_i64(value);
        }
        Value::Real(value) => {
            out.put_i32(8);
            out.put_f64(value);
        }
        Value::Text(value) => put_bytes(value.as_bytes(), out)?,
        Value::Bytes(value) => put_bytes(value, out)?,
        Value::Uuid(value) => put_bytes(value.as_bytes(), out)?,
    }
    Ok(())
}

fn put_bytes(value: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
    out.put_i32(i32::try_from(value.len())?);
    out.put_slice(value);
    Ok(())
}

/// Runs `fill`, and writes the length of its output before the output.
fn sized(
    out: &mut BytesMut,
    fill: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_i32(0);
    fill(out)?;
    let length = i32::try_from(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
