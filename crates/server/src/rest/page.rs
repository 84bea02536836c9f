//! Pages of listings: by cursor, or by offset for the first ten thousand.

use flovyn_engine::Code;
use flovyn_store::Page;

use super::cursor;
use super::error::RestError;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;
const MAX_OFFSET: usize = 10_000;

pub(super) fn page(
    limit: Option<usize>,
    offset: Option<usize>,
    after: Option<&str>,
) -> Result<Page, RestError> {
    let wrong = |error: String| RestError::new(Code::InvalidPage, error);
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(wrong(format!("limit is from 1 to {MAX_LIMIT}")));
    }
    let offset = offset.unwrap_or(0);
    if offset > MAX_OFFSET {
        return Err(wrong(format!("offset is up to {MAX_OFFSET}: use the cursor to go farther")));
    }
    let after = match after.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(cursor::read(text).ok_or_else(|| wrong("cursor is not one of ours".into()))?),
    };
    Ok(Page { after, offset, limit })
}
