//! Pages of listings: by cursor, or by offset for the first ten thousand.

use flovyn_engine::Code;
use flovyn_store::Page;
use uuid::Uuid;

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
    let limit = up_to(MAX_LIMIT, limit.unwrap_or(DEFAULT_LIMIT))?;
    let offset = offset.unwrap_or(0);
    if offset > MAX_OFFSET {
        return Err(wrong(format!("offset must be at most {MAX_OFFSET}: use the cursor for later pages")));
    }
    let after = match after.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(
            cursor::read(text)
                .ok_or_else(|| wrong("cursor is invalid: use the cursor of the previous page".into()))?,
        ),
    };
    Ok(Page { after, offset, limit })
}

/// The cursor of the next page. `None` if this page is not full.
pub(super) fn next<R>(rows: &[R], page: Page, key: impl Fn(&R) -> (i64, Uuid)) -> Option<String> {
    let last = rows.last().filter(|_| rows.len() == page.limit)?;
    let (created_ms, id) = key(last);
    Some(cursor::write(created_ms, id))
}

/// Checks a page size.
pub(super) fn up_to(most: usize, limit: usize) -> Result<usize, RestError> {
    if (1..=most).contains(&limit) {
        Ok(limit)
    } else {
        Err(wrong(format!("limit must be from 1 to {most}")))
    }
}

fn wrong(error: String) -> RestError {
    RestError::new(Code::InvalidPage, error)
}
