//! Times and durations in text form.

use flovyn_engine::Code;

use super::error::RestError;
pub(super) use crate::times::iso;
use crate::times::read;

/// Reads a time in RFC 3339, in milliseconds. Years from 0 to 9999 are accepted, in UTC or with an offset.
pub(super) fn moment(field: &str, text: &str) -> Result<i64, RestError> {
    read(text).map_err(|why| {
        let error =
            format!("Invalid {field}: '{text}' {why}. Expected RFC 3339, such as 2025-01-15T10:00:00Z");
        RestError::new(Code::InvalidValue, error)
    })
}

/// Reads `30s`, `5m`, `2h` or `7d`, in milliseconds. The engine checks the range.
pub(super) fn duration_ms(field: &str, code: Code, text: &str) -> Result<i64, RestError> {
    let wrong =
        || RestError::new(code, format!("Invalid {field} format: '{text}'. Expected: 30s, 5m, 2h, 7d"));
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number = &text[..text.len() - unit.len_utf8()];
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    Ok(number.saturating_mul(seconds).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let read = |text: &str| duration_ms("ttl", Code::InvalidTtl, text).ok();
        assert_eq!(read("30s"), Some(30_000));
        assert_eq!(read("5m"), Some(300_000));
        assert_eq!(read("2h"), Some(7_200_000));
        assert_eq!(read("7d"), Some(604_800_000));
        for wrong in ["", "s", "2x", "-1s", "1.5h", "1", " 1s", "1s ", "٣s", "1é"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(read("99999999999999999999d"), None);
        assert_eq!(read("9999999999999999d"), Some(i64::MAX));
    }

    #[test]
    fn a_wrong_time_is_named() {
        let told = format!("{:?}", moment("t", "2025-01-15T10:30:00+25:00").unwrap_err());
        assert!(told.contains("Invalid t") && told.contains("offset beyond"), "{told}");
    }
}
