{{! linear_end.cu - what becomes of the sum of output `output` of row `column` of the batch. }}
{{#gated}}
            if (output < {{out}}) {
{{#bias}}
                total += bias[output];
                total_up += bias[{{out}} + output];
{{/bias}}
                y[column * {{decode_y_stride}} + output] = operand_of({{device_act}}(total) * total_up);
            } else if (output < FFN_DEPTH)
                y[column * {{decode_y_stride}} + output] = 0;
{{/gated}}
{{#plain}}
            if (output < {{out}})
                y[column * {{decode_y_stride}} + output] {{#add}}+{{/add}}= total{{#bias}} + bias[output]{{/bias}};
{{/plain}}
