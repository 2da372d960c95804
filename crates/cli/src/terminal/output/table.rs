//! Tables that fit the terminal.

use comfy_table::{ContentArrangement, Table};

use super::Format;

/// Formats rows under a heading, with sanitized cells. Plain rows have one line each.
pub(crate) fn write(heading: &[&str], rows: &[Vec<String>], format: Format) -> String {
    match format {
        Format::Plain | Format::Json => plain(rows),
        Format::Table => fitting(heading, rows, super::columns()),
    }
}

fn plain(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().map(|cell| one_line(cell)).collect();
        cells.join("\t").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn fitting(heading: &[&str], rows: &[Vec<String>], columns: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = columns {
        table.set_width(columns.max(NARROWEST));
    }
    table.set_header(heading.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| super::sanitize(cell).replace('\t', " ")));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn one_line(cell: &str) -> String {
    super::sanitize(cell).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Least width of a table in columns.
const NARROWEST: u16 = 20;

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::{Format, fitting, write};

    fn rows() -> Vec<Vec<String>> {
        let long = "a description that is much longer than any terminal is wide ".repeat(4);
        vec![
            vec!["calculator.add".into(), long],
            vec!["翻訳する道具".into(), "日本語の説明文がここにとても長く続いている".repeat(3)],
            vec!["evil\u{1b}]0;title\u{7}".into(), "two\nlines\tand a tab".into()],
        ]
    }

    /// PAT-033: a table is never wider than its terminal, even with wide characters, and has no
    /// control characters.
    #[test]
    fn a_table_fits_the_terminal() {
        for columns in [20, 40, 80, 200] {
            let table = fitting(&["name", "description"], &rows(), Some(columns));
            for line in table.lines() {
                assert!(line.width() <= usize::from(columns), "{columns}: {line:?}");
            }
            assert!(!table.contains('\u{1b}') && !table.contains('\u{7}'));
        }
    }

    #[test]
    fn plain_output_has_one_line_per_row() {
        let list = write(&["name", "description"], &rows(), Format::Plain);
        assert_eq!(list.lines().count(), 3);
        assert!(list.lines().all(|line| line.matches('\t').count() == 1), "{list}");
    }
}
