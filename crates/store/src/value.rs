//! Column values and the types that are stored as columns. This module knows no table and no rule.

use bytes::Bytes;
use flovyn_engine::ids::Text;
use flovyn_engine::state::{
    AttemptStatus, AuditAction, ClockKind, CredentialKind, DueClass, EventKind, ExecutionStatus, HolderClass,
    KeySpace, LogLevel, Origin, PromiseStatus, SmallEnum, TaskStatus, TimerStatus, WorkClass,
};
use uuid::Uuid;

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Small,
    Int,
    Real,
    Text,
    Bytes,
    Uuid,
}

/// A borrowed column value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Small(i16),
    Int(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(Uuid),
}

/// A stored value does not have the type that its row needs. The cause is a bug in Flovyn or a damaged database.
#[derive(Debug, thiserror::Error)]
#[error("column {column} of {table} cannot be read: {problem}")]
pub struct ReadError {
    pub table: &'static str,
    pub column: &'static str,
    pub problem: String,
}

/// A type that is stored as one column.
pub trait Field: Sized {
    const TYPE: ColumnType;
    const NULLABLE: bool = false;

    fn value(&self) -> Value<'_>;
    fn from_value(value: Value<'_>) -> Result<Self, String>;
}

fn unexpected<T>(value: Value<'_>) -> Result<T, String> {
    Err(format!("unexpected value {value:?}"))
}

macro_rules! field {
    ($type:ty, $column:ident, |$this:ident| $to:expr, |$from:ident| $read:expr) => {
        impl Field for $type {
            const TYPE: ColumnType = ColumnType::$column;
            fn value(&self) -> Value<'_> {
                let $this = self;
                Value::$column($to)
            }
            fn from_value(value: Value<'_>) -> Result<Self, String> {
                match value {
                    Value::$column($from) => $read,
                    other => unexpected(other),
                }
            }
        }
    };
}

field!(i64, Int, |this| *this, |from| Ok(from));
field!(f64, Real, |this| *this, |from| Ok(from));
field!(Text, Text, |this| this, |from| Ok(Text::from(from)));
field!(Bytes, Bytes, |this| this, |from| Ok(Bytes::copy_from_slice(from)));
field!(Uuid, Uuid, |this| *this, |from| Ok(from));
field!(bool, Small, |this| i16::from(*this), |from| Ok(from != 0));

macro_rules! small_fields {
    ($($name:ident),*) => {
        $(field!($name, Small, |this| this.number(), |from| {
            $name::from_number(from).ok_or_else(|| format!("{from} is not a {}", stringify!($name)))
        });)*
    };
}

small_fields!(
    AttemptStatus,
    AuditAction,
    ClockKind,
    CredentialKind,
    DueClass,
    EventKind,
    ExecutionStatus,
    HolderClass,
    KeySpace,
    LogLevel,
    Origin,
    PromiseStatus,
    TaskStatus,
    TimerStatus,
    WorkClass
);

impl<F: Field> Field for Option<F> {
    const TYPE: ColumnType = F::TYPE;
    const NULLABLE: bool = true;
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, F::value)
    }
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            value => F::from_value(value).map(Some),
        }
    }
}
