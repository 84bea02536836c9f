//! Plots of recent activity: lines over time, drawn as SVG. Text and numbers are outside of the drawing, so it may be
//! stretched.

use std::fmt::Write;

use maud::{Markup, html};

/// The width in units of the drawing.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;
/// The margin at both sides, for dots.
const MARGIN: f64 = 4.0;

/// One line: its name, its tone, and its values by interval. `None`: an interval without a value.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) tone: &'static str,
    pub(crate) values: Vec<Option<f64>>,
}

/// Draws a plot. `places` is the number of intervals that fit. A server that just started has fewer samples, which are
/// drawn at the right.
pub(crate) fn plot(
    title: &str,
    about: &str,
    series: &[Series],
    places: usize,
    format: fn(f64) -> String,
) -> Markup {
    let highest = series.iter().flat_map(|one| one.values.iter().flatten()).fold(0.0, |a: f64, b| a.max(*b));
    let top = nice(highest);
    html! {
        figure.plot {
            figcaption {
                span.plot-title { (title) } span.muted { (about) }
                span.legend {
                    @for one in series {
                        span data-tone=(one.tone) { (one.name) " "
                            b.figures { (one.values.iter().rev().flatten().next().copied().map_or_else(|| "–".to_owned(), format)) }
                        }
                    }
                }
            }
            div.plot-area {
                span.plot-top.figures { (format(top)) }
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                    aria-label=(format!("{title}: at most {}", format(highest))) {
                    path.plot-grid d=(format!("M0 {HEIGHT}H{WIDTH}M0 {}H{WIDTH}M0 0H{WIDTH}", HEIGHT / 2.0)) {}
                    @for one in series {
                        path.plot-line data-tone=(one.tone) data-dots[is_sparse(&one.values)] d=(line(&one.values, places, top)) {}
                    }
                }
            }
        }
    }
}

/// The next larger round number.
fn nice(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(highest.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= highest)
        .unwrap_or(highest)
}

/// Whether the values form no visible line, only dots, which must then be larger.
fn is_sparse(values: &[Option<f64>]) -> bool {
    !values.windows(2).any(|pair| pair[0].is_some() && pair[1].is_some())
}

/// The path of a line. Missing values interrupt it; a single value is a dot.
fn line(values: &[Option<f64>], places: usize, top: f64) -> String {
    let places = places.max(values.len()).max(2);
    let first = places - values.len();
    let mut path = String::new();
    let mut is_drawing = false;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let x = MARGIN + (first + place) as f64 / (places - 1) as f64 * (WIDTH - 2.0 * MARGIN);
        let y = HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT;
        let command = if is_drawing { 'L' } else { 'M' };
        let is_alone = !is_drawing && values.get(place + 1).copied().flatten().is_none();
        // Writing to a string cannot fail.
        let _ = write!(path, "{command}{x:.1} {y:.1}");
        if is_alone {
            // A line of length zero: its round ends form the dot, even if the drawing is stretched.
            path.push_str("h0");
        }
        is_drawing = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_where_nothing_is_known() {
        let values = [Some(0.0), Some(5.0), None, Some(10.0)];
        assert_eq!(line(&values, 4, 10.0), "M4.0 100.0L201.3 50.0M596.0 0.0h0");
        assert_eq!(line(&[Some(1.0)], 3, 1.0), "M596.0 0.0h0");
        assert_eq!(line(&[], 3, 1.0), "");
    }

    #[test]
    fn scales_end_at_round_numbers() {
        let cases = [(0.0, 1.0), (0.3, 0.5), (1.0, 1.0), (7.0, 10.0), (120.0, 200.0), (2_100.0, 5_000.0)];
        for (highest, top) in cases {
            assert!((nice(highest) - top).abs() < 1e-9, "{highest}");
        }
    }
}
