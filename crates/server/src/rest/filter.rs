//! Filters of listings, read from a query string.

use flovyn_engine::Code;
use flovyn_engine::ids::Text;
use flovyn_engine::state::SmallEnum;

use super::error::RestError;

/// Reads a value of an enumeration by its name. `None` if the filter is not given.
pub(super) fn one_of<E: SmallEnum>(field: &str, text: Option<&str>) -> Result<Option<E>, RestError> {
    let Some(text) = text else { return Ok(None) };
    let found = E::ALL.iter().find(|known| known.name() == text).copied();
    found.map(Some).ok_or_else(|| {
        let names: Vec<&str> = E::ALL.iter().map(|known| known.name()).collect();
        let error = format!("Invalid {field}: '{text}'. Expected: {}", names.join(", "));
        RestError::new(Code::InvalidValue, error)
    })
}

/// Text to search for. Text that no row can contain is refused before the database is queried.
pub(super) fn sought(field: &str, text: Option<String>) -> Result<Option<Text>, RestError> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(RestError::new(Code::InvalidText, format!("{field} contains U+0000")))
        }
        Some(text) if !text.is_empty() => Ok(Some(text.into())),
        _ => Ok(None),
    }
}
