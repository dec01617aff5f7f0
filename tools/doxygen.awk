# Converts comments of the public headers for doxygen:
#   a header's first comment is the page's text;
#   a comment after a member describes that member;
#   <bos> in a comment is text, not HTML;
#   a comment above several declarations, with no blank line between, describes each of them.
FNR == 1 && sub(/^\/\* /, "") { print "/** @file"; print; next }

/^\/\*\*/ { doc = ""; in_doc = 1 }
in_doc { gsub(/<[a-z]/, "\\\\&"); doc = doc $0 "\n"; print; if (/\*\//) { in_doc = 0; used = 0 } next }
/^[ \t]*$/ { doc = "" }

doc != "" && /^MICA_API/ { if (used) printf "%s", doc; used = 1 }

!/^[ \t]*\/?\*/ && match($0, /[;,A-Za-z0-9_][ \t]+\/\* /) {
    print substr($0, 1, RSTART + RLENGTH - 4) "/**< " substr($0, RSTART + RLENGTH)
    next
}
{ print }
