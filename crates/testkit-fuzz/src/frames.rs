//! Any bytes, in any pieces, decode to the lines that a plain split finds.

use mcp_flow_proto::frame::{Line, LineDecoder};

/// Input: a byte that selects the limit, then the stream; `|` ends a piece.
pub fn run(data: &[u8]) {
    let Some((&limit, stream)) = data.split_first() else { return };
    let limit = match usize::from(limit % 32) {
        31 => usize::MAX,
        limit => limit,
    };
    let mut decoder = LineDecoder::new(limit);
    let mut found = Vec::new();
    for piece in stream.split(|byte| *byte == PIECE_END) {
        decoder.buffer().extend_from_slice(piece);
        while let Some(line) = decoder.next_line() {
            found.push(owned(&line));
        }
        let kept = decoder.buffer().len();
        assert!(kept <= limit.saturating_add(1), "{kept} bytes are kept past a limit of {limit}");
    }
    found.extend(decoder.last_line().map(|line| owned(&line)));
    assert_eq!(decoder.last_line(), None, "there is only one last line");
    assert_eq!(found, expected(stream, limit));
}

const PIECE_END: u8 = b'|';

/// Splits the stream plainly: frames, and `None` for a line above the limit.
fn expected(stream: &[u8], limit: usize) -> Vec<Option<Vec<u8>>> {
    let whole: Vec<u8> = stream.iter().copied().filter(|byte| *byte != PIECE_END).collect();
    let lines = whole.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let said = lines.filter(|line| line.len() > limit || !line.trim_ascii().is_empty());
    said.map(|line| (line.len() <= limit).then(|| line.to_vec())).collect()
}

fn owned(line: &Line<'_>) -> Option<Vec<u8>> {
    match line {
        Line::Frame(frame) => Some(frame.to_vec()),
        Line::TooLong => None,
    }
}
