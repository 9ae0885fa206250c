# st_embed_text(<out_var> <file> <symbol>): a C source in the build tree that defines the file's text
# as `const char symbol[]`; its path is put into out_var.
function(st_embed_text out_var file symbol)
  file(READ "${file}" text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  set(source "${PROJECT_BINARY_DIR}/gen/${symbol}.c")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT
       "extern const char ${symbol}[];\nconst char ${symbol}[] =\n    \"@text@\";\n")
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  set(${out_var} "${source}" PARENT_SCOPE)
endfunction()
