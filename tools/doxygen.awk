# Lets the public headers be written as plain C and read by doxygen: a header's first comment is the
# page's text, and a comment behind a member describes that member.
FNR == 1 && sub(/^\/\* /, "") { print "/** @file"; print; next }
!/^[ \t]*\/?\*/ && match($0, /[;,A-Za-z0-9_][ \t]+\/\* /) {
    print substr($0, 1, RSTART + RLENGTH - 4) "/**< " substr($0, RSTART + RLENGTH)
    next
}
{ print }
