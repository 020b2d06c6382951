//! Shapes results for the model: what is too long is cut to its two ends and kept whole where the
//! model can read it.

use ostler_proto::Block;
use ostler_tools::{Artifacts, cut};

/// Cuts the text of a result to `max` characters.
pub(super) async fn shape(content: Vec<Block>, max: usize, artifacts: Option<&Artifacts>) -> Vec<Block> {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    // No character is shorter than a byte, so most results need no counting.
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    if bytes <= max || texts.iter().map(|text| text.chars().count()).sum::<usize>() <= max {
        return content;
    }
    let whole = texts.join("\n");
    let note = match artifacts {
        None => "; the rest was not kept".to_owned(),
        Some(artifacts) => kept(artifacts, whole.clone()).await,
    };
    let mut text = Some(Block::Text(cut(&whole, max, &note)));
    // One text stands where the first stood; images and the like stay.
    content
        .into_iter()
        .filter_map(|block| if block.as_text().is_some() { text.take() } else { Some(block) })
        .collect()
}

/// Why a call failed, where the disk was why: that is the user's to mend, so the model is not the only one to know.
pub(super) fn want_of_room(content: &[Block]) -> Option<String> {
    const SIGNS: [&str; 3] = ["no space left on device", "disk quota exceeded", "read-only file system"];
    let lines = content.iter().filter_map(Block::as_text).flat_map(str::lines);
    let is_sign = |line: &&str| {
        let line = line.to_ascii_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    lines.into_iter().find(is_sign).map(|line| format!("a call failed: {line}"))
}

/// Keeps the whole text and says where.
async fn kept(artifacts: &Artifacts, whole: String) -> String {
    match artifacts.keep(whole).await {
        Ok(kept) => {
            let lost = match kept.lost {
                0 => String::new(),
                lost => format!(" but for {lost} bytes in the middle"),
            };
            format!(
                "; the whole result is kept{lost} in {}: Grep it, or Read it with offset and limit",
                kept.path.display()
            )
        }
        Err(error) => format!("; the rest could not be kept: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(blocks: &[Block]) -> String {
        blocks.iter().filter_map(Block::as_text).collect()
    }

    #[test]
    fn a_disk_that_took_nothing_is_told_of() {
        let told = |text: &str| want_of_room(&[Block::text("before"), Block::text(text)]);
        let line = "cannot write a.txt: No space left on device (os error 28)";
        assert_eq!(told(&format!("x\n{line}\ny")), Some(format!("a call failed: {line}")));
        assert_eq!(told("there was space on the device"), None);
    }

    #[tokio::test]
    async fn short_results_pass_and_long_ones_are_kept() {
        let temp = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(&temp.path().join("kept"));
        let short = vec![Block::text("é".repeat(1000))];
        assert_eq!(shape(short.clone(), 1000, Some(&artifacts)).await, short);
        assert!(!artifacts.folder().exists());
        let long = vec![
            Block::text("a".repeat(900)),
            Block::Opaque(serde_json::json!(1)),
            Block::text("b".repeat(900)),
        ];
        let shaped = shape(long, 1000, Some(&artifacts)).await;
        assert_eq!(shaped.len(), 2);
        let shown = text(&shaped);
        assert!(shown.chars().count() <= 1000 && shown.starts_with("aaa") && shown.ends_with("bbb"));
        let file = artifacts.folder().read_dir().unwrap().next().unwrap().unwrap().path();
        assert!(shown.contains(&format!("kept in {}: Grep it", file.display())), "{shown}");
        assert_eq!(file.metadata().unwrap().len(), 1801);
    }

    #[tokio::test]
    async fn that_nothing_could_be_kept_is_said() {
        let long = || vec![Block::text("x".repeat(2000))];
        assert!(text(&shape(long(), 1000, None).await).contains("the rest was not kept"));
        let nowhere = Artifacts::new(std::path::Path::new("/dev/null/x"));
        assert!(
            text(&shape(long(), 1000, Some(&nowhere)).await).contains("could not be kept: cannot write to")
        );
    }
}
