"""The headers for security in every response: content security policy, no frames, no referrer."""

# A page of this server loads scripts, styles and data from this server alone, and no other page shows it in a frame.
# Bokeh and Panel need inline scripts and `eval`.
CONTENT_SECURITY_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-frame-options", b"DENY"),  # `frame-ancestors` for older browsers
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),  # other sites do not see the address, which may hold the token
    (b"cross-origin-opener-policy", b"same-origin"),  # other pages have no handle on this page's window
    (b"cross-origin-resource-policy", b"same-origin"),
]
