//! Pictures: decoded once, scaled to what a model looks at, and encoded from that one decoding ever
//! harder until they fit. A picture that cannot be decoded never reaches a model.

use super::{Failure, Job, Limits};
use crate::host::blocking;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use image::{
    DynamicImage, GenericImageView as _, ImageDecoder as _, ImageFormat, ImageReader, Rgb, RgbImage,
    codecs::jpeg::JpegEncoder, imageops::FilterType, metadata::Orientation,
};
use ostler_proto::{Block, Source, ToolError, ToolOutput};
use serde_json::json;
use std::{
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Models scale down what is longer.
const MAX_EDGE: u32 = 1568;
/// Models count about so many pixels as a token.
const PIXELS_PER_TOKEN: usize = 750;
/// The largest file that is read, and the most memory that decoding it may take.
const MAX_FILE: u64 = 32 * 1024 * 1024;
const MAX_DECODED: u64 = 256 * 1024 * 1024;
const MAX_DECODED_EDGE: u32 = 30_000;
/// Quality of JPEG, from good to bad; tried in turn at each size.
const QUALITIES: [u8; 3] = [80, 60, 40];
/// What is shown when all else is too large.
const LAST_EDGE: u32 = 400;
const LAST_QUALITY: u8 = 20;

/// A picture fit for a model.
#[derive(Debug)]
pub(super) struct Picture {
    bytes: Vec<u8>,
    format: ImageFormat,
    /// Width and height before and after.
    original: (u32, u32),
    shown: (u32, u32),
}

pub(super) async fn read(job: Job) -> Result<ToolOutput, Failure> {
    let (version, bytes) = job.load(MAX_FILE).await?;
    let (limits, size) = (job.limits, bytes.len());
    let picture = blocking(move || fit(&bytes, limits)).await.map_err(|reason| {
        ToolError::Failed(format!("{} cannot be shown: {reason}", job.fact.requested.display()))
    })?;
    Ok(job.show(version, output(&picture, size)))
}

fn output(picture: &Picture, size: usize) -> ToolOutput {
    let data = BASE64_STANDARD.encode(&picture.bytes);
    let ((width, height), (shown_width, shown_height)) = (picture.original, picture.shown);
    let file = json!({
        "base64": data,
        "type": picture.format.to_mime_type(),
        "originalSize": size,
        "dimensions": {
            "originalWidth": width, "originalHeight": height,
            "displayWidth": shown_width, "displayHeight": shown_height,
        },
    });
    let mut content = vec![block(picture.format, data)];
    if picture.original != picture.shown {
        content.push(Block::Text(format!(
            "[The image is {width}x{height}, shown at {shown_width}x{shown_height}]"
        )));
    }
    let structured = json!({"type": "image", "file": file});
    ToolOutput { content, structured, is_error: false, changes: Vec::new() }
}

fn block(format: ImageFormat, data: String) -> Block {
    Block::Image(Source::Base64 { media_type: format.to_mime_type().to_owned(), data })
}

impl Picture {
    pub(super) fn into_block(self) -> Block {
        block(self.format, BASE64_STANDARD.encode(&self.bytes))
    }
}

/// Makes a file's bytes a picture that a model can take, or says why not.
pub(super) fn fit(bytes: &[u8], limits: Limits) -> Result<Picture, String> {
    // Decoders of foreign formats are large; a fault in one must not end more than this read.
    catch_unwind(AssertUnwindSafe(|| decode_and_fit(bytes, limits)))
        .unwrap_or_else(|_| Err("the picture broke its decoder".to_owned()))
}

fn decode_and_fit(bytes: &[u8], limits: Limits) -> Result<Picture, String> {
    let (picture, format, orientation) = decode(bytes)?;
    let original = picture.dimensions();
    let shown = scaled(original, limits.tokens);
    let goes_as_it_is =
        shown == original && bytes.len() <= limits.picture && orientation == Orientation::NoTransforms;
    if goes_as_it_is {
        return Ok(Picture { bytes: bytes.to_vec(), format, original, shown });
    }
    let mut current = resized(&picture, shown);
    if matches!(format, ImageFormat::Png | ImageFormat::Gif | ImageFormat::WebP) {
        let mut png = Vec::new();
        let written = current.write_to(&mut Cursor::new(&mut png), ImageFormat::Png);
        if written.is_ok() && png.len() <= limits.picture {
            return Ok(Picture { bytes: png, format: ImageFormat::Png, original, shown });
        }
    }
    while current.width().max(current.height()) > LAST_EDGE {
        for quality in QUALITIES {
            let bytes = jpeg(&current, quality)?;
            if bytes.len() <= limits.picture {
                let shown = current.dimensions();
                return Ok(Picture { bytes, format: ImageFormat::Jpeg, original, shown });
            }
        }
        let (width, height) = current.dimensions();
        current = resized(&picture, ((width * 2 / 3).max(1), (height * 2 / 3).max(1)));
    }
    let bytes = jpeg(&current, LAST_QUALITY)?;
    Ok(Picture { bytes, format: ImageFormat::Jpeg, original, shown: current.dimensions() })
}

fn decode(bytes: &[u8]) -> Result<(DynamicImage, ImageFormat, Orientation), String> {
    let unreadable = |error: image::ImageError| format!("it is no readable image ({error})");
    let mut reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
    let format = reader.format().ok_or("it is no image of a known kind")?;
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_DECODED_EDGE);
    limits.max_image_height = Some(MAX_DECODED_EDGE);
    limits.max_alloc = Some(MAX_DECODED);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(unreadable)?;
    if decoder.total_bytes() > MAX_DECODED {
        return Err(format!("decoded it would take more than {MAX_DECODED} bytes"));
    }
    // Cameras store how they were held; a picture without that note is upright.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(unreadable)?;
    picture.apply_orientation(orientation);
    Ok((picture, format, orientation))
}

/// The largest size of the same shape that models look at and that costs few enough tokens.
fn scaled((width, height): (u32, u32), tokens: usize) -> (u32, u32) {
    let pixels = f64::from(width) * f64::from(height);
    #[expect(clippy::cast_precision_loss, reason = "a limit need not be exact")]
    let by_tokens = (tokens.saturating_mul(PIXELS_PER_TOKEN) as f64 / pixels).sqrt();
    let by_edge = f64::from(MAX_EDGE) / f64::from(width.max(height));
    let factor = by_tokens.min(by_edge);
    if factor >= 1.0 {
        return (width, height);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "smaller than it was")]
    let edge = |edge: u32| ((f64::from(edge) * factor) as u32).max(1);
    (edge(width), edge(height))
}

fn resized(picture: &DynamicImage, (width, height): (u32, u32)) -> DynamicImage {
    if (width, height) == picture.dimensions() {
        return picture.clone();
    }
    picture.resize_exact(width, height, FilterType::Triangle)
}

/// JPEG knows no transparency: what is behind is white.
fn jpeg(picture: &DynamicImage, quality: u8) -> Result<Vec<u8>, String> {
    let flat = if picture.color().has_alpha() {
        let picture = picture.to_rgba8();
        RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
            let [red, green, blue, alpha] = picture.get_pixel(x, y).0.map(u16::from);
            #[expect(clippy::cast_possible_truncation, reason = "a mean of two bytes is one")]
            let over_white = |channel: u16| {
                ((u32::from(channel) * u32::from(alpha) + 255 * u32::from(255 - alpha)) / 255) as u8
            };
            Rgb([over_white(red), over_white(green), over_white(blue)])
        })
    } else {
        picture.to_rgb8()
    };
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
    flat.write_with_encoder(encoder).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::RgbaImage;

    fn noise(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(7);
        let pixels = (0..width * height * 4).map(|_| random.u8(..)).collect();
        let picture = DynamicImage::ImageRgba8(RgbaImage::from_raw(width, height, pixels).unwrap());
        let picture = if format == ImageFormat::Jpeg { picture.to_rgb8().into() } else { picture };
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    fn limits(picture: usize) -> Limits {
        Limits { picture, ..Limits::default() }
    }

    #[test]
    fn a_small_picture_goes_as_it_is() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let bytes = noise(8, 5, format);
            let picture = fit(&bytes, Limits::default()).unwrap();
            assert_eq!((picture.bytes, picture.format, picture.shown), (bytes, format, (8, 5)));
        }
    }

    #[test]
    fn a_picture_shrinks_until_it_fits() {
        let wide = fit(&noise(1800, 9, ImageFormat::Png), limits(1 << 20)).unwrap();
        assert_eq!((wide.format, wide.original, wide.shown), (ImageFormat::Png, (1800, 9), (1568, 7)));
        let heavy = noise(420, 100, ImageFormat::Png);
        let harder = fit(&heavy, limits(30_000)).unwrap();
        assert_eq!((harder.format, harder.shown), (ImageFormat::Jpeg, (420, 100)));
        assert!(harder.bytes.len() <= 30_000);
        let smaller = fit(&heavy, limits(9_000)).unwrap();
        assert!(smaller.bytes.len() <= 9_000 && smaller.shown.0 < 420, "{:?}", smaller.shown);
        let tiny = fit(&heavy, limits(1)).unwrap();
        assert!(tiny.shown.0 <= LAST_EDGE && decode(&tiny.bytes).is_ok());
        let cheap = Limits { tokens: 20, ..Limits::default() };
        let (width, height) = fit(&heavy, cheap).unwrap().shown;
        assert!((width * height) as usize <= 20 * PIXELS_PER_TOKEN && width > 200);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let whole = noise(40, 40, ImageFormat::Png);
        let mut bomb = whole.clone();
        // The width and height in the header, with its checksum left wrong on purpose.
        bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        for bytes in [b"".as_slice(), b"plain text", &whole[..whole.len() / 2], &bomb] {
            fit(bytes, Limits::default()).unwrap_err();
        }
    }
}
