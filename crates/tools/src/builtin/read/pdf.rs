//! PDF: the text of some pages, and a picture of a page that has none where a renderer is at hand.
//! Foreign documents are taken apart in a bounded child process; see [`poppler`].

#[cfg(feature = "pdf")]
mod native;
mod poppler;

use super::{Failure, Job, image};
use crate::{builtin::tokens, host::blocking, text};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ostler_proto::{Block, ToolError, ToolOutput};
use serde_json::json;
use std::{ops::RangeInclusive, sync::Arc};

/// How many pages a read shows: when they are named, and when they are all there are.
const MAX_PAGES: usize = 20;
const MAX_WHOLE_PAGES: usize = 10;
/// The largest file that is read.
const MAX_FILE: u64 = 32 * 1024 * 1024;
/// The largest file that programs get whole.
const MAX_STRUCTURED: usize = 1024 * 1024;
/// How many pages without text are shown as pictures.
const MAX_PICTURES: usize = 5;

/// The pages to show, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pages(RangeInclusive<usize>);

/// What was found in a document.
struct Extracted {
    /// How many pages it has.
    total: usize,
    /// The texts of the wanted pages; none where more are wanted than may be shown.
    texts: Vec<String>,
}

impl Pages {
    /// Reads `3` or `1-5`.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|page| *page > 0);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let wrong =
            || ToolError::Failed(format!("pages must be like 3 or 1-5, counted from 1, not {text:?}"));
        let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
        if last < first {
            return Err(wrong());
        }
        if last - first >= MAX_PAGES {
            return Err(ToolError::Failed(format!(
                "{} pages are too many; ask for at most {MAX_PAGES} at once",
                last - first + 1
            )));
        }
        Ok(Self(first..=last))
    }
}

pub(super) async fn read(job: Job) -> Result<ToolOutput, Failure> {
    let path = job.fact.requested.display();
    let failed = |reason: &str| ToolError::Failed(format!("{path} cannot be shown: {reason}"));
    let (version, bytes) = job.load(MAX_FILE).await?;
    // The mark need not be the first thing in the file, only near it.
    if memchr::memmem::find(&bytes[..bytes.len().min(1024)], b"%PDF-").is_none() {
        return Err(failed("it is no PDF").into());
    }
    let bytes = Arc::new(bytes);
    let found = extract(&bytes, job.pages.clone()).await.map_err(|reason| failed(&reason))?;
    let total = found.total;
    if job.pages.is_none() && total > MAX_WHOLE_PAGES {
        return Err(ToolError::Failed(format!(
            "{path} has {total} pages, too many to read at once; say which with pages, such as 1-{MAX_WHOLE_PAGES} \
             (at most {MAX_PAGES})"
        ))
        .into());
    }
    let first = job.pages.as_ref().map_or(1, |pages| *pages.0.start());
    if first > total {
        return Err(ToolError::Failed(format!(
            "{path} has only {total} pages; page {first} is past its end"
        ))
        .into());
    }
    let content = pages_of(&job, &bytes, first, found).await?;
    let mut file = json!({"filePath": job.fact.requested});
    let kind = if job.pages.is_none() && bytes.len() <= MAX_STRUCTURED {
        file["base64"] = json!(BASE64_STANDARD.encode(bytes.as_slice()));
        "pdf"
    } else {
        file["firstPage"] = json!(first);
        file["count"] = json!(content.len());
        file["totalPages"] = json!(total);
        "parts"
    };
    file["originalSize"] = json!(bytes.len());
    let structured = json!({"type": kind, "file": file});
    let output = ToolOutput { content, structured, is_error: false, changes: Vec::new() };
    Ok(job.show(version, output))
}

/// Takes a document apart with what this machine has for it.
async fn extract(bytes: &Arc<Vec<u8>>, pages: Option<Pages>) -> Result<Extracted, String> {
    if let Some(found) = poppler::extract(bytes, pages.as_ref()).await? {
        return Ok(found);
    }
    #[cfg(feature = "pdf")]
    return native::extract(bytes, pages).await;
    #[cfg(not(feature = "pdf"))]
    Err("reading PDF needs pdftotext and pdfinfo (package poppler or poppler-utils), which are not installed"
        .to_owned())
}

/// The pages as blocks, as many as may be shown.
async fn pages_of(
    job: &Job,
    bytes: &Arc<Vec<u8>>,
    first: usize,
    found: Extracted,
) -> Result<Vec<Block>, ToolError> {
    let mut blocks = Vec::new();
    let (mut cost, mut pictures) = (0, MAX_PICTURES);
    for (page, page_text) in (first..).zip(found.texts) {
        let page_text = text::clean(&page_text);
        let shown = format!("[Page {page} of {}]\n{}", found.total, page_text.trim_end());
        cost += tokens::count(&shown);
        if cost > job.limits.tokens {
            if job.pages.is_some() || page == first {
                return Err(ToolError::Failed(format!(
                    "the pages from {first} on are too long to show together; ask for at most {}",
                    (page - first).max(1)
                )));
            }
            blocks.push(Block::Text(format!(
                "[PARTIAL view: pages {first}-{} of {}; read on with pages {page}-{}]",
                page - 1,
                found.total,
                found.total.min(page + MAX_PAGES - 1)
            )));
            break;
        }
        blocks.push(Block::Text(shown));
        if page_text.trim().is_empty() {
            blocks.push(picture_of(job, bytes, page, &mut pictures).await);
        }
    }
    Ok(blocks)
}

/// A page that holds no text, as a picture or as words about why there is none.
async fn picture_of(job: &Job, bytes: &Arc<Vec<u8>>, page: usize, pictures: &mut usize) -> Block {
    let Some(left) = pictures.checked_sub(1) else {
        return Block::text(format!(
            "[No text; only {MAX_PICTURES} such pages are shown as pictures at once]"
        ));
    };
    let limits = job.limits;
    match poppler::render(bytes, page).await {
        Ok(Some(png)) => match blocking(move || image::fit(&png, limits)).await {
            Ok(picture) => {
                *pictures = left;
                picture.into_block()
            }
            Err(reason) => Block::text(format!("[No text, and its picture cannot be shown: {reason}]")),
        },
        Ok(None) => Block::text("[No text; a picture of it needs pdftoppm, which is not installed]"),
        Err(reason) => Block::text(format!("[No text, and no picture of it: {reason}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    /// A small document with a line of text on each page; a page with an empty line has no text.
    pub(super) fn document(pages: &[&str]) -> Vec<u8> {
        let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + 2 * page)).collect();
        let mut objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        ];
        for (page, line) in pages.iter().enumerate() {
            let content = if line.is_empty() {
                "20 20 60 60 re f".to_owned()
            } else {
                format!("BT /F1 12 Tf 20 100 Td ({line}) Tj ET")
            };
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {} 0 R \
                 /Resources << /Font << /F1 3 0 R >> >> >>",
                5 + 2 * page
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
        }
        let mut text = "%PDF-1.4\n".to_owned();
        let mut table = "0000000000 65535 f \n".to_owned();
        for (number, object) in objects.iter().enumerate() {
            writeln!(table, "{:010} 00000 n ", text.len()).unwrap();
            writeln!(text, "{} 0 obj\n{object}\nendobj", number + 1).unwrap();
        }
        let (start, size) = (text.len(), objects.len() + 1);
        write!(text, "xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n").unwrap();
        write!(text, "startxref\n{start}\n%%EOF\n").unwrap();
        text.into_bytes()
    }

    #[tokio::test]
    async fn poppler_finds_pages_and_renders_those_without_text() {
        let bytes = Arc::new(document(&["Hello one", "", "Hello three"]));
        let Some(found) = poppler::extract(&bytes, None).await.unwrap() else {
            return println!("skipped: poppler is not installed");
        };
        let texts: Vec<&str> = found.texts.iter().map(|text| text.trim()).collect();
        assert_eq!((found.total, texts), (3, vec!["Hello one", "", "Hello three"]));
        let some = poppler::extract(&bytes, Some(&Pages(2..=9))).await.unwrap().unwrap();
        assert_eq!((some.total, some.texts.len()), (3, 2));
        let png = poppler::render(&bytes, 2).await.unwrap().unwrap();
        assert!(image::fit(&png, super::super::Limits::default()).is_ok());
        let broken = Arc::new(b"%PDF-1.4 and nothing more".to_vec());
        assert!(poppler::extract(&broken, None).await.is_err());
    }

    #[test]
    fn pages_are_read_as_people_write_them() {
        let pages = |text: &str| Pages::parse(text).map(|pages| pages.0).map_err(|error| error.to_string());
        assert_eq!(pages("3"), Ok(3..=3));
        assert_eq!(pages(" 1 - 20 "), Ok(1..=20));
        assert!(pages("1-21").unwrap_err().starts_with("21 pages are too many"));
        for wrong in ["", "0", "0-3", "5-2", "1-", "-3", "a", "1,2", "1-2-3", "99999999999999999999"] {
            assert!(pages(wrong).unwrap_err().contains("must be like"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_pages(text in "\\PC{0,30}|[0-9-]{0,30}") {
            if let Ok(Pages(pages)) = Pages::parse(&text) {
                prop_assert!((1..=MAX_PAGES).contains(&pages.count()));
            }
        }
    }
}
